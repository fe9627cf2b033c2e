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

envload() {
    sh "$root/bin/envload" "$@"
}

# The value that V gets from the given line (after eval, in a shell of its own), between brackets.
value() {
    printf '%s\n' "$1" >env
    envload env >out 2>err || {
        echo "error $?"
        return
    }
    (
        unset V
        eval "$(cat out)"
        printf '[%s]' "$V"
    ) 2>&1
}

check "a plain value" "[localhost]" "$(value 'V=localhost')"
check "an equals sign in a value" "[x=y==]" "$(value 'V=x=y==')"
check "a value with blanks" "[two words]" "$(value 'V=two words')"
check "an empty value" "[]" "$(value 'V=')"
check "empty quotes" "[] []" "$(value 'V=""') $(value "V=''")"
check "blanks around a line" "[x]" "$(value '  	V=x  	 ')"
check "a value in double quotes" "[ two  words ]" "$(value 'V=" two  words "')"
check "a value in single quotes" "[ two  words ]" "$(value "V=' two  words '")"
check "quotes in the middle of a value" "[it's \"so\"]" "$(value "V=it's \"so\"")"

check "a dollar sign" '[pa$$word]' "$(value 'V=pa$$word')"
check "variables are not expanded" '[$HOME ${HOME}] [$HOME]' "$(value 'V=$HOME ${HOME}') $(value 'V="$HOME"')"
check "commands are not executed" '[$(touch pwned) `touch pwned`] no' "$(value 'V=$(touch pwned) `touch pwned`') $([ -e pwned ] && echo pwned || echo no)"
check "nor in double quotes" '[$(touch pwned) `touch pwned`] no' "$(value 'V="$(touch pwned) `touch pwned`"') $([ -e pwned ] && echo pwned || echo no)"
check "nor behind a single quote" "[x'; touch pwned; '] no" "$(value "V=x'; touch pwned; '") $([ -e pwned ] && echo pwned || echo no)"
check "nor behind a single quote in double quotes" "['; touch pwned; '] no" "$(value "V=\"'; touch pwned; '\"") $([ -e pwned ] && echo pwned || echo no)"
check "nor behind a semicolon" '[x; touch pwned] no' "$(value 'V=x; touch pwned') $([ -e pwned ] && echo pwned || echo no)"
check "nor in single quotes" '[$(touch pwned)] no' "$(value "V='\$(touch pwned)'") $([ -e pwned ] && echo pwned || echo no)"
value 'V$(touch pwned)=x' >/dev/null
value 'V;touch pwned;A=x' >/dev/null
check "nor in names" "no" "$([ -e pwned ] && echo pwned || echo no)"
check "stars are not expanded" "[*] [* ?]" "$(value 'V=*') $(value 'V=* ?')"
check "an exclamation mark" '[a!b !!]' "$(value 'V=a!b !!')"

check "backslashes" '[C:\temp\new]' "$(value 'V=C:\temp\new')"
check "backslashes at the end" '[x\] [x\\]' "$(value 'V=x\') $(value 'V=x\\')"
check "backslashes in single quotes" '[a\nb\\]' "$(value "V='a\\nb\\\\'")"
check "escapes in double quotes" '[say "hi" \ $x `y`]' "$(value 'V="say \"hi\" \\ \$x \`y\`"')"
check "a line feed" "[two
lines]" "$(value 'V="two\nlines"')"
check "several line feeds at the end" "[x

]" "$(value 'V="x\n\n"')"
check "other backslashes stand for themselves" "[\\t \\' \\x41]" "$(value 'V="\t \'"'"' \x41"')"
check "two backslashes and an n" '[\n]' "$(value 'V="\\n"')"
check "a backslash before the closing quote" '[x\]' "$(value 'V="x\\"')"

check "export before the name" "[x]" "$(value 'export V=x')"
check "export and several blanks" "[x]" "$(value '  export 	 V="x"')"
check "a variable named export" "export export='x'" "$(printf 'export=x\n' >env && envload env)"

check "a comment behind a value" "[x]" "$(value 'V=x # comment')"
check "a comment behind a quoted value" "[x # y]" "$(value 'V="x # y" # comment "quoted"')"
check "a comment behind nothing" "[]" "$(value 'V= # comment')"
check "a hash without a blank" "[x#y] [#y]" "$(value 'V=x#y') $(value 'V=#y')"
check "a quote behind a comment" "[x]" "$(value "V=x # don't")"

printf '# one\r\n\r\nA=1\r\nB="two"\r\nC=3 # x\r\nD='"'"'4'"'"' \r\n' >env
check "lines from windows" "export A='1'
export B='two'
export C='3'
export D='4'" "$(envload env)"
printf 'A=1\nB=2' >env
check "a last line without an end" "export A='1'
export B='2'" "$(envload env)"
printf '\n   # indented comment\n#A=1\n \t \nB=2\n' >env
check "comments and empty lines" "export B='2'" "$(envload env)"
: >env
check "an empty file" "0 " "$(envload env >out; echo "$? $(cat out)")"

printf 'A=1\nB=2\nA=3\nC=4\nB="5"\n' >env
check "the last one counts" "export A='3'
export B='5'
export C='4'" "$(envload env)"
check "only some of them" "export A='3'
export C='4'" "$(envload env C A)"
check "a name is not a part of a name" "1" "$(envload env A C AB >/dev/null 2>&1; echo $?)"
printf 'AB=1\nA=2\nBA=3\n' >env
check "only the one with just this name" "export A='2'" "$(envload env A)"
envload env A NOPE >out 2>err
check "a name that is missing" "1 0 yes" "$? $(wc -c <out | tr -d ' ') $(grep -q 'NOPE' err && echo yes)"

# The line must be refused, with its number, and nothing printed.
refuse() {
    printf 'OK=1\n%s\nMORE=2\n' "$2" >env
    envload env >out 2>err
    check "refused: $1" "1 0 env:2" "$? $(wc -c <out | tr -d ' ') $(cut -d: -f1-2 err)"
}

refuse "a name that begins with a digit" '2ND=x'
refuse "a name with a blank" 'A B=x'
refuse "a name with a dash" 'A-B=x'
refuse "a name with a dot" 'a.b=x'
refuse "a name with a dollar sign" '$A=x'
refuse "a name in quotes" '"A"=x'
refuse "no name" '=x'
refuse "a blank before the equals sign" 'A =x'
refuse "a blank behind the equals sign" 'A= x'
refuse "only a name" 'NAME'
refuse "only the word export" 'export'
refuse "export without a value" 'export A'
refuse "text behind double quotes" 'A="x" y'
refuse "text right behind double quotes" 'A="x"y'
refuse "text behind single quotes" "A='x''y'"
refuse "a comment right behind quotes" 'A="x"#y'
refuse "double quotes that are not closed" 'A="x'
refuse "single quotes that are not closed" "A='x"
refuse "double quotes closed by an escaped one" 'A="x\"'
refuse "a lone double quote" 'A="'
refuse "double quotes closed by a single one" "A=\"x'"

printf 'A=1\n2ND=x\nB=2\nC="x\n\nD E=1\n' >env
envload env >out 2>err
check "every bad line is told" "1 0 env:2 env:4 env:6 " "$? $(wc -c <out | tr -d ' ') $(cut -d: -f1-2 err | tr '\n' ' ')"

mkdir "a dir"
printf 'A=1\n' >"a dir/the env"
check "a path with blanks" "export A='1'" "$(envload "a dir/the env")"
usage=
for arguments in "" "missing"; do
    envload $arguments >/dev/null 2>&1
    usage="$usage$? "
done
check "wrong usage" "2 2 " "$usage"

check "all kinds of characters at once" '[a'"'"'b"c\d$e`f]' "$(value 'V=a'"'"'b"c\d$e`f')"

echo "1..$count"
