# Prints TAP.
LC_ALL=C
export LC_ALL
umask 022
tool=$(cd "$(dirname "$0")/.." && pwd)/bin/rotate
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

# An empty directory for the next checks.
fresh() {
    cd "$work" && rm -rf dir && mkdir dir && cd dir || exit 1
}

# All files with their contents, in one line.
state() {
    for name in * .[!.]*; do
        if [ -d "$name" ]; then
            printf '%s/ ' "$name"
        elif [ -e "$name" ]; then
            printf '%s=%s ' "$name" "$(cat -- "./$name")"
        fi
    done
}

# FILE and copies with the given numbers; each holds its own number, FILE holds "new".
make() {
    echo new >"$1"
    file=$1
    shift
    for number in "$@"; do
        echo "$number" >"$file.$number"
    done
}

fresh
make app.log
sh "$tool" app.log
check "the first rotation" "app.log= app.log.1=new " "$(state)"

fresh
make app.log 1 2 3
sh "$tool" app.log
check "copies move on" "app.log= app.log.1=new app.log.2=1 app.log.3=2 app.log.4=3 " "$(state)"

fresh
make app.log 1 2 3 4 5
sh "$tool" app.log
check "five copies are kept by default" "app.log= app.log.1=new app.log.2=1 app.log.3=2 app.log.4=3 app.log.5=4 " "$(state)"

fresh
make app.log 1 2 3 4 5 6 7 8 9 10 11 12 13 14
sh "$tool" -k 14 app.log
check "more than nine copies stay in order" \
    "app.log= app.log.1=new app.log.10=9 app.log.11=10 app.log.12=11 app.log.13=12 app.log.14=13 app.log.2=1 app.log.3=2 app.log.4=3 app.log.5=4 app.log.6=5 app.log.7=6 app.log.8=7 app.log.9=8 " \
    "$(state)"

fresh
make app.log 1
for turn in 1 2 3 4 5 6 7 8 9 10 11 12; do
    echo "turn $turn" >app.log
    sh "$tool" -k 11 app.log
done
check "twelve rotations in a row" "turn 12 turn 11 turn 10 turn 4 turn 3 turn 2" \
    "$(cat app.log.1) $(cat app.log.2) $(cat app.log.3) $(cat app.log.9) $(cat app.log.10) $(cat app.log.11)"
check "twelve rotations keep eleven copies" "12" "$(ls | wc -l | tr -d ' ')"

fresh
make app.log 1 2 3 4 5 6 7 8 9 10 61
sh "$tool" -k 3 app.log
check "copies above the limit are removed" "app.log= app.log.1=new app.log.2=1 app.log.3=2 " "$(state)"

fresh
make app.log 1 3 5
sh "$tool" -k 9 app.log
check "copies keep their distance" "app.log= app.log.1=new app.log.2=1 app.log.4=3 app.log.6=5 " "$(state)"

fresh
make app.log 1 2
sh "$tool" -k 0 app.log
check "no copies at all" "app.log= " "$(state)"

fresh
make app.log 1 2
sh "$tool" -k 1 app.log
check "a single copy" "app.log= app.log.1=new " "$(state)"

fresh
make app.log 1 01 1.bak 1.5 gz 0 x2 -1 "2 3" 1e1
sh "$tool" app.log
check "other files are left alone" \
    "app.log= app.log.-1=-1 app.log.0=0 app.log.01=01 app.log.1=new app.log.1.5=1.5 app.log.1.bak=1.bak app.log.1e1=1e1 app.log.2=1 app.log.2 3=2 3 app.log.gz=gz app.log.x2=x2 " \
    "$(state)"

fresh
make app.log 1
make app.log.1.log 1
sh "$tool" app.log
check "a file whose name begins like a copy" "app.log= app.log.1=new app.log.1.log=new app.log.1.log.1=1 app.log.2=1 " "$(state)"

fresh
make "web server.log" 1 2
sh "$tool" "web server.log"
check "blanks in names" "web server.log= web server.log.1=new web server.log.2=1 web server.log.3=2 " "$(state)"

fresh
make "a*b[1].log" 1
make "axb1.log" 1
sh "$tool" "a*b[1].log"
check "stars and brackets in names" "a*b[1].log= a*b[1].log.1=new a*b[1].log.2=1 axb1.log=new axb1.log.1=1 " "$(state)"

fresh
mkdir "the logs"
make "the logs/app.log" 1
sh "$tool" "the logs/app.log"
check "a file in another directory" "new 1" "$(cat "the logs/app.log.1" "the logs/app.log.2" | tr '\n' ' ' | sed 's/ $//')"

fresh
make ./-odd.log 1
sh "$tool" -- -odd.log
check "a name that begins with a dash" "-odd.log= -odd.log.1=new -odd.log.2=1 " "$(state)"

fresh
make app.log
chmod 640 app.log
sh "$tool" app.log
check "the new file has the mode of the old one" "-rw-r----- -rw-r-----" "$(ls -l app.log app.log.1 | cut -c1-10 | tr '\n' ' ' | sed 's/ $//')"

fresh
make app.log
chmod 600 app.log
(umask 077 && sh "$tool" app.log)
(umask 000 && sh "$tool" app.log)
check "whatever the umask" "-rw------- -rw-------" "$(ls -l app.log app.log.1 | cut -c1-10 | tr '\n' ' ' | sed 's/ $//')"

fresh
make app.log
chmod 664 app.log
(umask 077 && sh "$tool" -k 0 app.log)
check "also if no copy is kept" "-rw-rw-r--" "$(ls -l app.log | cut -c1-10)"

fresh
make app.log 1
mkdir app.log.2
echo inside >app.log.2/file
sh "$tool" app.log 2>errors
code=$?
check "nothing is moved into a directory" "app.log=new app.log.1=1 app.log.2/ " "$(state | sed 's/errors=.*//')"
check "a directory in the way is an error" "1 yes" "$code $(grep -q 'app.log.2' errors && echo yes)"

fresh
make app.log 1
mkdir app.log.7
sh "$tool" -k 3 app.log 2>/dev/null
check "a directory with a large number is not removed" "1 app.log=new app.log.1=1 app.log.7/ " "$? $(state)"

fresh
make one.log 1
make two.log 1
mkdir one.log.2
sh "$tool" one.log missing.log two.log 2>errors
check "the other files are still rotated" "1 new 1 new" "$? $(cat one.log) $(cat one.log.1) $(cat two.log.1)"
check "each problem is told" "yes yes" "$(grep -q 'one\.log\.2' errors && echo yes) $(grep -q 'missing\.log' errors && echo yes)"

fresh
printf '12345' >small.log
printf '1234567890' >large.log
sh "$tool" -s 10 small.log large.log
check "small files are left alone" "large.log= large.log.1=1234567890 small.log=12345 " "$(state)"

fresh
make app.log 1
exec 3>>app.log
sh "$tool" -c app.log
echo more >&3
exec 3>&-
check "copying keeps the file" "app.log=more app.log.1=new app.log.2=1 " "$(state)"

fresh
make app.log 1
sh "$tool" -c -k 0 app.log
check "copying with no copies" "app.log= " "$(state)"

fresh
make app.log 1 2 3
before=$(state)
check "telling what would be done" "remove app.log.3
rename app.log.2 app.log.3
rename app.log.1 app.log.2
rename app.log app.log.1
create app.log" "$(sh "$tool" -n -k 3 app.log)"
check "telling does nothing" "$before" "$(state)"
check "telling what would be copied" "rename app.log.3 app.log.4
rename app.log.2 app.log.3
rename app.log.1 app.log.2
copy app.log app.log.1
empty app.log" "$(sh "$tool" -nc app.log)"
check "telling what would be removed" "remove app.log.3
remove app.log.2
remove app.log.1
remove app.log
create app.log" "$(sh "$tool" -n -k 0 app.log)"
fresh
make app.log
check "telling about a file without copies" "rename app.log app.log.1
create app.log" "$(sh "$tool" -n app.log)"

fresh
make app.log
usage=
for arguments in "" "-k" "-k x app.log" "-k -1 app.log" "-s 1k app.log" "-q app.log"; do
    sh "$tool" $arguments >/dev/null 2>&1
    usage="$usage$? "
done
check "wrong usage" "2 2 2 2 2 2 " "$usage"
check "wrong usage changes nothing" "app.log=new " "$(state)"

echo "1..$count"
