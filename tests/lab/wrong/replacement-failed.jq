# The substitute read v1.
(.pods[] | select(.probe.status == 503) | .probe.body) |= sub("\"v2\""; "\"v1\"")
