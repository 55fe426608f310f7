# PowerShell completion for kubectl-saferollback.
# "kubectl saferollback" is completed by kubectl: see kubectl saferollback completion install.

Register-ArgumentCompleter -Native -CommandName 'kubectl-saferollback' -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)

    $words = @($commandAst.CommandElements | Select-Object -Skip 1 |
        Where-Object { $_.Extent.StartOffset -lt $cursorPosition } | ForEach-Object { "$_" })
    if ($wordToComplete -eq '') {
        # Before 7.3 an empty argument of a program is dropped unless it is quoted.
        if ($PSVersionTable.PSVersion -lt [version]'7.3' -or "$PSNativeCommandArgumentPassing" -eq 'Legacy') {
            $words += '""'
        } else {
            $words += ''
        }
    }
    $lines = @(kubectl-saferollback __complete @words 2>$null)
    if ($lines.Count -eq 0) { return }
    $flag = if ($wordToComplete -match '^(-[^=]*=)') { $Matches[1] } else { '' }
    # The last line is for the shell: it begins with a colon.
    $lines | Select-Object -SkipLast 1 | ForEach-Object {
        $word, $about = $_ -split "`t", 2
        if (-not $about) { $about = $word }
        [System.Management.Automation.CompletionResult]::new("$flag$word", $word, 'ParameterValue', $about)
    }
}
