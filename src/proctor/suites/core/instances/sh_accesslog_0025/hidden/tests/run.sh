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

hits() {
    sh "$root/bin/hits" "$@"
}

# The table without its head, and with single blanks.
rows() {
    hits "$@" 2>/dev/null | sed -e 1d -e 's/  */ /g' -e 's/^ //'
}

# A line of the log: request, status, bytes.
line() {
    printf '10.0.0.1 - - [10/Oct/2023:13:55:36 +0000] "%s" %s %s "-" "Agent/1.0 (x; y)"\n' "$1" "$2" "$3"
}

{
    line 'GET / HTTP/1.1' 200 100
    line 'POST /search?q=1 HTTP/1.1' 500 -
    line 'GET / HTTP/1.1' 404 20
} >plain
check "sums" "requests  errors      bytes  path
       2       1        120  /
       1       1          0  /search" "$(hits plain)"
check "standard input" "$(hits plain)" "$(hits <plain)"
check "standard input as a file" "4 2 240 /
2 2 0 /search" "$(rows - plain <plain)"
check "one method" "1 1 0 /search" "$(rows -m POST plain)"
check "a method that does not occur" "" "$(rows -m DELETE plain)"
check "the first ones" "2 1 120 /" "$(rows -n 1 plain)"
check "none of them" "requests  errors      bytes  path" "$(hits -n 0 plain)"
hits plain >/dev/null
check "all is well" "0" "$?"

{
    for status in 200 301 399; do line 'GET /fine HTTP/1.1' $status 1; done
    for status in 400 401 404 500 599; do line 'GET /broken HTTP/1.1' $status 1; done
} >statuses
check "errors begin at 400" "5 5 5 /broken
3 0 3 /fine" "$(rows statuses)"
check "no errors are a zero" "       3       0          3  /fine" "$(hits statuses | tail -n 1)"

{
    printf '10.0.0.1 - Ada Lovelace [10/Oct/2023:13:55:36 +0000] "GET /user HTTP/1.1" 200 5 "-" "x"\n'
    printf '10.0.0.1 - x[1] "y" [z] [10/Oct/2023:13:55:36 +0000] "GET /user HTTP/1.1" 404 6 "-" "x"\n'
    printf '10.0.0.1 ident Mr. A B C D [10/Oct/2023:13:55:36 -0130] "GET /user HTTP/1.1" 200 7 "-" "x"\n'
} >users
check "users with blanks and brackets" "3 1 18 /user" "$(rows users)"

{
    line 'GET /annual report.pdf HTTP/1.0' 200 10
    line 'GET /annual report.pdf?page=1 2 HTTP/1.0' 404 20
    line 'GET /a  b c HTTP/1.1' 200 1
    line 'GET /about HTTP/1.1 of course HTTP/2' 200 2
} >blanks
check "paths with blanks" "2 1 30 /annual report.pdf
1 0 1 /a  b c
1 0 2 /about HTTP/1.1 of course" "$(hits blanks | sed -e 1d -e 's/^  *//' -e 's/^\([0-9]*\)  *\([0-9]*\)  *\([0-9]*\)  /\1 \2 \3 /')"

{
    line 'GET /say/\"hi\" HTTP/1.1' 200 1
    line 'GET /back\\ HTTP/1.1' 200 2
} >quotes
check "quotes in paths" '1 0 2 /back\\
1 0 1 /say/\"hi\"' "$(rows quotes)"

{
    line 'GET /x?a=1?b=2 HTTP/1.1' 200 1
    line 'GET /x? HTTP/1.1' 200 2
    line 'GET /x HTTP/1.1' 200 4
    line 'GET ? HTTP/1.1' 200 8
} >queries
check "queries" "3 0 7 /x
1 0 8 " "$(rows queries)"

{
    for path in /b /a /C /_ /a/b /B /10 /9; do
        line "GET $path HTTP/1.1" 200 "$(echo "$path" | wc -c)"
        line "GET $path HTTP/1.1" 404 1
    done
    line 'GET /z HTTP/1.1' 200 1
    line 'GET /z HTTP/1.1' 200 1
    line 'GET /z HTTP/1.1' 200 1
} | sed 's/   *\([0-9]\)/ \1/' >ties
check "the alphabet among equals" "/z /10 /9 /B /C /_ /a /a/b /b" "$(rows ties | sed 's/.* //' | tr '\n' ' ' | sed 's/ $//')"
check "also in another locale" "/z /10 /9 /B /C /_ /a /a/b /b" "$(LC_ALL=en_US.UTF-8 LANG=en_US.UTF-8 rows ties | sed 's/.* //' | tr '\n' ' ' | sed 's/ $//')"

i=0
while [ $i -lt 12 ]; do
    line 'GET /often HTTP/1.1' 200 1
    i=$((i + 1))
done >many
line 'GET /seldom HTTP/1.1' 200 1 >>many
line 'GET /seldom HTTP/1.1' 200 1 >>many
check "twelve is more than two" "12 0 12 /often
2 0 2 /seldom" "$(rows many)"

{
    printf '10.0.0.1 - - [10/Oct/2023:13:55:36 +0000] "GET /short HTTP/1.1" 200 5\n'
    printf '10.0.0.1 - - [10/Oct/2023:13:55:36 +0000] "GET /short HTTP/1.1" 200 -\n'
} >short
check "the short format" "2 0 5 /short" "$(rows short)"

{
    line 'GET / HTTP/1.1' 200 1
    echo 'one two three four five six seven eight nine ten eleven twelve'
    echo ''
    echo 'too short'
    line 'GET / HTTP/1.1' abc 1
    line 'GET / HTTP/1.1' 200 abc
    line 'GET / HTTP/1.1' 20 1
    line 'GET /' 200 1
    line 'GET' 200 1
    line '' 200 1
    line '-' 400 0
    echo '10.0.0.1 - - [10/Oct/2023:13:55:36 +0000] "GET / HTTP/1.1 200 5 - x y z'
    echo '10.0.0.1 - - [yesterday] "GET / HTTP/1.1" 200 5 "-" "x"'
} >garbage
check "garbage is not counted" "1 0 1 /" "$(rows garbage)"
hits garbage >out 2>errors
check "garbage is told" "1 12" "$? $(sed 's/[^0-9]//g' errors)"
check "what is told goes to stderr" "2" "$(wc -l <out | tr -d ' ')"
line 'GET' 200 1 | hits >/dev/null 2>errors
check "a single garbage line" "1" "$(sed 's/[^0-9]//g' errors)"
hits -m POST plain >/dev/null
check "requests with another method are not garbage" "0" "$?"

cp plain day=1.log
check "a name with an equals sign" "2 1 120 /
1 1 0 /search" "$(rows day=1.log </dev/null)"
cp plain "two words"
check "a name with a blank" "4 2 240 /
2 2 0 /search" "$(rows "two words" plain)"
hits missing plain >out 2>/dev/null
check "a file that is missing" "2" "$?"
hits -n x plain >/dev/null 2>&1
check "wrong usage" "2" "$?"
check "nothing at all" "requests  errors      bytes  path" "$(hits </dev/null)"

echo "1..$count"
