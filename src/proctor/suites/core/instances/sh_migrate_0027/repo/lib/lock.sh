# One at a time.

lock() {
    if [ -e "$state.lock" ]; then
        fail 4 "$state.lock exists: is somebody else at work?"
    fi
    mkdir "$state.lock"
}

unlock() {
    rmdir "$state.lock"
}
