# From sorted lines to the table.
BEGIN {
    limit = ENVIRON["LIMIT"]
    printf "%8s  %6s  %9s  %s\n", "requests", "errors", "bytes", "path"
}

$1 == 1 {
    if (limit == "" || ++shown <= limit + 0) {
        printf "%8s  %6s  %9s  %s\n", $2, $3, $4, $5
    }
}

$1 == 2 {
    print "hits: " $2 ($2 == 1 ? " line" : " lines") " could not be read" | "cat >&2"
    bad = 1
}

END {
    exit bad
}
