# What was run, as it is recorded in $state.

# The lines of the record.
recorded() {
    if [ -e "$state" ]; then
        cat "$state"
    fi
}

record() {
    echo "$1" >>"$state"
}

# Takes a number out of the record.
forget() {
    grep -v "^$1" "$state" >"$state.new"
    mv "$state.new" "$state"
}

# Numbers and names of scripts that were not run yet.
pending() {
    scripts | while read number name; do
        if ! recorded | grep -q "^$number"; then
            printf '%s\t%s\n' "$number" "$name"
        fi
    done
}

# A line per script: what has become of it, and its name.
compared() {
    scripts | while read number name; do
        if ! recorded | grep -q "^$number"; then
            echo "pending $name"
        elif recorded | grep -q "^$number $(checksum "$dir/$name.up.sh")"; then
            echo "applied $name"
        else
            echo "changed $name"
        fi
    done
}
