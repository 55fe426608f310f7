# bash completion for kubectl-saferollback; it needs no package of functions.
# "kubectl saferollback" is completed by kubectl: see kubectl saferollback completion install.

_kubectl_saferollback() {
    local line=${COMP_LINE:0:COMP_POINT} cur out directive word mark longest=0 i
    local -a words=() found=() about=()
    COMPREPLY=()
    read -ra words <<<"$line"
    case $line in
    *[[:space:]]) words[${#words[@]}]='' ;;
    esac
    cur=${words[${#words[@]} - 1]}
    out=$(kubectl-saferollback __complete "${words[@]:1}" 2>/dev/null) || return 0
    directive=${out##*:}
    out=${out%:*}
    # Of --flag=value the value alone is completed.
    case $cur in
    -*=*) cur=${cur#*=} ;;
    esac
    while IFS= read -r line; do
        word=${line%%$'\t'*}
        [[ -n $word && $word == "$cur"* ]] || continue
        found[${#found[@]}]=$word
        [[ $line == *$'\t'* ]] && about[${#found[@]} - 1]=${line#*$'\t'}
        ((${#word} > longest)) && longest=${#word}
    done <<<"$out"
    if [[ $(type -t compopt) == builtin ]]; then
        ((directive & 2)) && compopt -o nospace
        ((directive & 4)) && compopt +o default
        # Since bash 4.4; before, numbers are sorted as words.
        ((directive & 32)) && compopt -o nosort 2>/dev/null
    fi
    for ((i = 0; i < ${#found[@]}; i++)); do
        if ((${#found[@]} == 1)); then
            printf -v word %q "${found[i]}"
        elif [[ -n ${about[i]-} ]]; then
            printf -v word '%-*s  (%s)' "$longest" "${found[i]}" "${about[i]}"
            word=${word:0:$((${COLUMNS:-80} - 2))}
        else
            word=${found[i]}
        fi
        # What bash takes for another word's end stands on the line already.
        for mark in : =; do
            if [[ $cur == *"$mark"* && $COMP_WORDBREAKS == *"$mark"* ]]; then
                word=${word#"${cur%"${cur##*"$mark"}"}"}
            fi
        done
        COMPREPLY[i]=$word
    done
    return 0
}

complete -o default -F _kubectl_saferollback kubectl-saferollback
