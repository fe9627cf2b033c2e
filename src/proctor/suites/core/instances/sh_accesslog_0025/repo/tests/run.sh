# Prints TAP.
root=$(cd "$(dirname "$0")/.." && pwd)
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

log() {
    echo '10.0.0.1 - - [10/Oct/2023:13:55:36 +0000] "GET / HTTP/1.1" 200 100 "-" "Agent/1.0"'
    echo '10.0.0.1 - ada [10/Oct/2023:13:55:37 +0000] "POST /search?q=1 HTTP/1.1" 500 - "-" "Agent/1.0"'
    echo '10.0.0.2 - - [10/Oct/2023:13:55:38 +0000] "GET / HTTP/1.1" 404 20 "-" "Agent/1.0"'
}

check "sums" "requests  errors      bytes  path
       2       1        120  /
       1       1          0  /search" "$(log | sh "$root/bin/hits")"
check "one method" "requests  errors      bytes  path
       1       1          0  /search" "$(log | sh "$root/bin/hits" -m POST)"

echo "1..$count"
