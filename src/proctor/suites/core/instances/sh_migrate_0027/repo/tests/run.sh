# Prints TAP.
tool=$(cd "$(dirname "$0")/.." && pwd)/bin/migrate
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

mkdir migrations
for name in 1_one 2_two; do
    echo "echo up $name >>log" >migrations/$name.up.sh
    echo "echo down $name >>log" >migrations/$name.down.sh
done
check "status" "pending 1_one
pending 2_two" "$(sh "$tool" status)"
check "up" "applied 1_one
applied 2_two" "$(sh "$tool" up)"
check "they were run" "up 1_one
up 2_two" "$(cat log)"
check "only once" "" "$(sh "$tool" up)"
check "down" "reverted 2_two" "$(sh "$tool" down)"

echo "1..$count"
