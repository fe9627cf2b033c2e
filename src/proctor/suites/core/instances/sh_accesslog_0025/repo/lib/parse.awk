# From lines of the log to lines for sorting:
#   "1" TAB requests TAB errors TAB bytes TAB path
#   "2" TAB number of lines that could not be read

NF < 10 {
    bad++
    next
}

{
    method = substr($6, 2)
    if (ENVIRON["METHOD"] != "" && method != ENVIRON["METHOD"]) {
        next
    }
    path = $7
    sub(/\?.*/, "", path)
    requests[path]++
    if ($9 > 400) {
        errors[path]++
    }
    sent[path] += $10
}

END {
    for (path in requests) {
        print "1\t" requests[path] "\t" errors[path] "\t" sent[path] "\t" path
    }
    if (bad) {
        print "2\t" bad
    }
}
