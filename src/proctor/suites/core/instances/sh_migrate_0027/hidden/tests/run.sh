# Prints TAP.
tool=$(cd "$(dirname "$0")/.." && pwd)/bin/migrate
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
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

# An empty directory, with scripts of these names that write to "log".
fresh() {
    cd "$work" && rm -rf project && mkdir project && cd project && mkdir migrations || exit 1
    : >log
    for name in "$@"; do
        script "$name"
    done
}

script() {
    printf 'echo "up %s" >>log\n' "$1" >"migrations/$1.up.sh"
    printf 'echo "down %s" >>log\n' "$1" >"migrations/$1.down.sh"
}

migrate() {
    sh "$tool" "$@"
}

# What has been run, in one line; forgets it.
log() {
    paste -s -d , log
    : >log
}

# The names in the record, in one line.
names() {
    [ ! -e migrations.state ] || cut -d ' ' -f 3- migrations.state | paste -s -d , -
}

fresh 1_one 2_two 3_three
check "status before" "pending 1_one
pending 2_two
pending 3_three" "$(migrate status)"
check "up" "applied 1_one
applied 2_two
applied 3_three" "$(migrate up)"
check "they are run in order" "up 1_one,up 2_two,up 3_three" "$(log)"
check "they are run once" "0 " "$(migrate up; echo "$? $(log)")"
check "status after" "applied 1_one
applied 2_two
applied 3_three" "$(migrate status)"
check "down" "reverted 3_three" "$(migrate down)"
check "down runs the script" "down 3_three" "$(log)"
check "down several" "down 2_two,down 1_one" "$(migrate down 2 >/dev/null; log)"
check "down to nothing" "0 " "$(migrate down 5; echo "$? $(log)")"
check "no lock is left" "log migrations migrations.state" "$(ls | paste -s -d ' ' -)"

fresh 1_one 2_two 3_three
migrate up 2 >/dev/null
check "up some" "up 1_one,up 2_two" "$(log)"
migrate up 0 >/dev/null
check "up none" "" "$(log)"
migrate up 9 >/dev/null
check "up more than there are" "up 3_three" "$(log)"
migrate down 9 >/dev/null
check "down more than there are" "down 3_three,down 2_two,down 1_one" "$(log)"
migrate up >/dev/null
check "and up again" "up 1_one,up 2_two,up 3_three" "$(log)"

fresh 1_one
migrate up >/dev/null
check "the record" "1 $(cksum <migrations/1_one.up.sh | cut -d ' ' -f 1) 1_one" "$(cat migrations.state)"

fresh 10_ten 2_two 1_one 11_eleven 100_hundred 20_twenty 3_three
migrate up >/dev/null
check "by value" "up 1_one,up 2_two,up 3_three,up 10_ten,up 11_eleven,up 20_twenty,up 100_hundred" "$(log)"
check "status by value" "1_one 2_two 3_three 10_ten 11_eleven 20_twenty 100_hundred" "$(migrate status | cut -d ' ' -f 2 | paste -s -d ' ' -)"
migrate down 3 >/dev/null
check "down by value" "down 100_hundred,down 20_twenty,down 11_eleven" "$(log)"

fresh 10_ten
migrate up >/dev/null
script 1_one
script 100_hundred
check "a number is not the beginning of a number" "pending 1_one
applied 10_ten
pending 100_hundred" "$(migrate status)"
log >/dev/null
migrate up >/dev/null
check "what comes late is run" "up 1_one,up 100_hundred" "$(log)"
migrate down 2 >/dev/null
check "what was run last is undone first" "down 100_hundred,down 1_one" "$(log)"
check "and nothing else is forgotten" "10_ten" "$(names)"

fresh 12_b
migrate up >/dev/null
script 11_a
script 9_c
migrate up >/dev/null
log >/dev/null
migrate down 2 >/dev/null
check "not the largest number but the last run" "down 11_a,down 9_c" "$(log)"
check "the largest number is still there" "12_b" "$(names)"

fresh 008_eight 09_nine 0010_ten 0_zero
migrate up >/dev/null
check "zeros in front" "up 0_zero,up 008_eight,up 09_nine,up 0010_ten" "$(log)"
check "the record has no zeros in front" "0 8 9 10" "$(cut -d ' ' -f 1 migrations.state | paste -s -d ' ' -)"
check "zeros in front are run once" "0 " "$(migrate up; echo "$? $(log)")"
migrate down 2 >/dev/null
check "zeros in front and back" "down 0010_ten,down 09_nine" "$(log)"

for pair in "7_a 7_b" "7_a 07_b" "007_a 07_a"; do
    fresh 1_one $pair
    migrate up >out 2>err
    check "the same number twice: $pair" "2  0" "$? $(log) $(wc -c <out | tr -d ' ')"
done

fresh 1_one
echo "echo readme" >migrations/README.up.sh
echo "echo no >>log" >migrations/x2_no.up.sh
echo "echo no >>log" >migrations/3.up.sh
echo "echo no >>log" >migrations/_4.up.sh
echo "echo no >>log" >migrations/5_no.sh
echo "echo no >>log" >migrations/6_no.up.sh.bak
echo "echo no >>log" >migrations/7_no.down.sh
migrate up >/dev/null
check "other files do not matter" "up 1_one" "$(log)"
check "other files are not in the status" "applied 1_one" "$(migrate status)"

fresh
check "no scripts at all" "0 " "$(migrate up; echo "$? $(migrate status)")"

fresh 1_one 2_two 3_three
echo 'echo "up 2_two" >>log; exit 3' >migrations/2_two.up.sh
migrate up >out 2>err
check "a failure has its exit code" "1" "$?"
check "a failure is the end" "up 1_one,up 2_two" "$(log)"
check "a failure is not recorded" "1_one" "$(names)"
check "a failure is told" "applied 1_one yes" "$(cat out) $(grep -q 2_two err && echo yes)"
check "a failure leaves no lock" "no" "$([ -e migrations.state.lock ] && echo yes || echo no)"
script 2_two
check "after a failure it goes on" "applied 2_two
applied 3_three" "$(migrate up)"

fresh 1_one
echo 'exit 1' >migrations/1_one.up.sh
migrate up >/dev/null 2>&1
check "a failure of the first" "1 " "$? $(names)"
check "a failure can be repeated" "1" "$(migrate up >/dev/null 2>&1; echo $?)"

fresh 1_one 2_two 3_three
migrate up >/dev/null
log >/dev/null
echo 'exit 1' >migrations/2_two.down.sh
migrate down 3 >/dev/null 2>&1
check "a failure on the way back" "1 down 3_three" "$? $(log)"
check "what was undone is forgotten, the rest is not" "1_one,2_two" "$(names)"

fresh 1_one 2_two 3_three
for name in 1_one 2_two; do
    printf 'cat >/dev/null; read -r line; echo "up %s" >>log\n' $name >migrations/$name.up.sh
    printf 'cat >/dev/null; echo "down %s" >>log\n' $name >migrations/$name.down.sh
done
printf 'a\nb\nc\n' | migrate up >/dev/null
check "scripts that read their input" "up 1_one,up 2_two,up 3_three" "$(log)"
migrate down 3 >/dev/null </dev/null
check "also on the way back" "down 3_three,down 2_two,down 1_one" "$(log)"
echo 'wc -c | tr -d " " >>log' >migrations/1_one.up.sh
echo hello | migrate up 1 >/dev/null
check "there is nothing on their input" "0" "$(log)"

fresh 1_one 2_two 3_three
migrate up 2 >/dev/null
log >/dev/null
echo '# changed' >>migrations/1_one.up.sh
migrate up >out 2>err
check "no up after a change" "3  0 yes" "$? $(log) $(wc -c <out | tr -d ' ') $(grep -q 1_one err && echo yes)"
migrate down >out 2>err
check "no down after a change" "3  yes" "$? $(log) $(grep -q 1_one err && echo yes)"
check "a change in the status" "changed 1_one
applied 2_two
pending 3_three" "$(migrate status)"
check "a change leaves no lock" "no" "$([ -e migrations.state.lock ] && echo yes || echo no)"
rm migrations/2_two.up.sh
check "a missing script in the status" "changed 1_one
missing 2_two
pending 3_three" "$(migrate status)"
migrate up >out 2>err
check "all that is wrong is told" "3 yes yes " "$? $(grep -q 1_one err && echo yes) $(grep -q 2_two err && echo yes) $(log)"
script 1_one
script 2_two
check "when it is as before all is well" "applied 3_three" "$(migrate up)"
rm migrations/2_two.up.sh
check "no up without a script that was run" "3" "$(migrate up >/dev/null 2>&1; echo $?)"
check "no down without a script that was run" "3" "$(migrate down >/dev/null 2>&1; echo $?)"

fresh 1_one 2_two
migrate up >/dev/null
mv migrations/2_two.up.sh migrations/2_renamed.up.sh
check "a renamed script is missing" "applied 1_one
missing 2_two" "$(migrate status)"

fresh 1_one
migrate up >/dev/null
echo 'echo changed' >migrations/1_one.down.sh
check "the way back may be changed" "changed" "$(migrate down | head -n 1)"

fresh 1_one 2_two 3_three 4_four
migrate up >/dev/null
log >/dev/null
rm migrations/2_two.down.sh
migrate down 3 >out 2>err
check "no way back" "3  0 yes" "$? $(log) $(wc -c <out | tr -d ' ') $(grep -q 2_two err && echo yes)"
check "nothing is forgotten then" "1_one,2_two,3_three,4_four" "$(names)"
check "as far as there is a way back" "0 down 4_four,down 3_three" "$(migrate down 2 >/dev/null; echo "$? $(log)")"

fresh "1_with blanks" "2_and  more 'quotes'" "3_a*b"
migrate up >/dev/null
check "blanks in names" "up 1_with blanks,up 2_and  more 'quotes',up 3_a*b" "$(log)"
check "blanks in the record" "1_with blanks,2_and  more 'quotes',3_a*b" "$(names)"
check "blanks in the status" "applied 1_with blanks
applied 2_and  more 'quotes'
applied 3_a*b" "$(migrate status)"
migrate down 2 >/dev/null
check "blanks on the way back" "down 3_a*b,down 2_and  more 'quotes'" "$(log)"

fresh 1_one
mkdir "some where"
mv migrations "some where/the scripts"
migrate -d "some where/the scripts" -s "some where/the state" up >/dev/null
check "blanks in paths" "up 1_one applied 1_one" "$(log) $(migrate -d "some where/the scripts" -s "some where/the state" status)"
migrate -d "some where/the scripts" -s "some where/the state" down >/dev/null
check "blanks in paths on the way back" "down 1_one" "$(log)"

fresh 1_one
mkdir migrations.state.lock
migrate up >/dev/null 2>&1
check "somebody else is at work" "4  yes" "$? $(log) $([ -d migrations.state.lock ] && echo yes)"
migrate down >/dev/null 2>&1
check "also on the way back somebody is" "4" "$?"
check "status does not mind" "pending 1_one" "$(migrate status)"

fresh 1_one 2_two
echo 'sh "$TOOL" up >/dev/null 2>&1; echo "inner $?" >>log' >migrations/1_one.up.sh
TOOL=$tool migrate up >/dev/null
check "a run within a run" "inner 4,up 2_two" "$(log)"

fresh 1_one 2_two
echo 'cat migrations.state >>log 2>/dev/null; [ -d migrations.state.lock ] && echo locked >>log' >migrations/2_two.up.sh
migrate up >/dev/null
check "recorded before the next one is run" "up 1_one,1 $(cksum <migrations/1_one.up.sh | cut -d ' ' -f 1) 1_one,locked" "$(log)"

fresh 1_one 2_two
echo 'kill -TERM $PPID; sleep 0' >migrations/1_one.up.sh
migrate up >/dev/null 2>&1
code=$?
check "no lock is left after a signal" "stopped no " "$([ $code -gt 128 ] && echo stopped || echo "code $code") $([ -e migrations.state.lock ] && echo yes || echo no) $(log)"

fresh 1_one
pwd >expected
echo 'pwd >where' >migrations/1_one.up.sh
migrate up >/dev/null
check "scripts run where migrate was started" "$(cat expected)" "$(cat where)"

fresh 1_one
usage=
for arguments in "" "up x" "up -1" "sideways" "up 1 2" "status 1" "-q up" "-d nowhere up" "down 1x"; do
    migrate $arguments >/dev/null 2>&1
    usage="$usage$? "
done
check "wrong usage" "2 2 2 2 2 2 2 2 2 " "$usage"
check "wrong usage does nothing" "" "$(log)"

echo "1..$count"
