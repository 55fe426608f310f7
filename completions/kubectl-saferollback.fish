# fish completion for kubectl-saferollback.
# "kubectl saferollback" is completed by kubectl: see kubectl saferollback completion install.

function __kubectl_saferollback_complete
    set -l words (commandline -opc)
    set -l last (commandline -ct)
    set -l lines (kubectl-saferollback __complete $words[2..-1] "$last" 2>/dev/null)
    or return
    set -l directive (string replace : '' -- $lines[-1])
    set -e lines[-1]
    if test (count $lines) -eq 0
        # The fourth of these is: no names of files.
        contains -- $directive 4 6 36 38
        or __fish_complete_path $last
        return
    end
    # Of --flag=value the value alone is printed; fish wants all of it.
    set -l flag (string match -r -- '^-[^=]*=' $last)
    for line in $lines
        printf '%s%s\n' "$flag" "$line"
    end
end

# -k: revisions come with the newest first, all else by the alphabet.
complete -c kubectl-saferollback -k -f -a '(__kubectl_saferollback_complete)'
