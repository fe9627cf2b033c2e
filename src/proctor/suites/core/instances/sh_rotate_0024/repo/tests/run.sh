# Prints TAP.
LC_ALL=C
export LC_ALL
tool=$(cd "$(dirname "$0")/.." && pwd)/bin/rotate
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

echo new >app.log
echo one >app.log.1
sh "$tool" app.log
check "a copy moves on" "one" "$(cat app.log.2)"
check "the file becomes the first copy" "new" "$(cat app.log.1)"
check "there is a new file" "0" "$(wc -c <app.log | tr -d ' ')"
sh "$tool" -k x app.log 2>/dev/null
check "bad numbers are refused" "2" "$?"

echo "1..$count"
