# The scripts in $dir.

# All of them: the number, without zeros in front, a tab, and the name.
scripts() {
    for path in $dir/*.up.sh; do
        name=${path##*/}
        number=${name%%_*}
        printf '%s\t%s\n' "${number#0}" "${name%.up.sh}"
    done
}

# The first lines of standard input, or all.
first() {
    if [ -n "$1" ]; then
        head -n "$1"
    else
        cat
    fi
}

checksum() {
    cksum <"$1" | sed 's/ .*//'
}
