# Prints TAP.
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
count=0

check() {
    count=$((count + 1))
    if [ "$2" = "$3" ]; then
        echo "ok $count - $1"
    else
        echo "not ok $count - $1"
        printf 'expected: %s\ngot: %s\n' "$2" "$3" | sed 's/^/# /'
    fi
}

printf '# settings\nHOST=localhost\n\nNAME="two words"\nOTHER=x=y\n' >env
eval "$(sh "$root/bin/envload" env)"
check "a plain value" "localhost" "$HOST"
check "a quoted value" "two words" "$NAME"
check "an equals sign" "x=y" "$OTHER"
check "only one of them" "1" "$(sh "$root/bin/envload" env HOST | wc -l | tr -d ' ')"

echo "1..$count"
