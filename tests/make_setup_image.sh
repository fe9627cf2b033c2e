#!/bin/sh
# Makes the image that the tests of state-graded benchmarks run in: the tests' base image with the packages of the
# services that their tasks set up, none of them configured. Needs what tests/make_base_image.sh needs.
#
#   tests/make_setup_image.sh [NAME:TAG]
set -eu

image=${1:-proctor-test/setup:bookworm}
base=proctor-test/base:bookworm
suite=bookworm
packages="autossh curl gunicorn iproute2 nginx-light openssh-server postgresql python3-flask python3-pytest
redis-server sqlite3 supervisor"

sh "$(dirname "$0")/make_base_image.sh" "$base"
# What it is made by: this script, and the image that it starts from.
recipe=$( (cat "$0"; docker image inspect --format '{{.Id}}' "$base") | sha256sum | cut -c1-32)
if [ "$(docker image inspect --format '{{index .Config.Labels "proctor-test.recipe"}}' "$image" 2>&1)" = "$recipe" ]; then
    echo "$image is there"
    exit 0
fi
mirror=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Created-By: Packages' 2>/dev/null |
    awk -v suite="$suite" '$2 == suite { print $1; exit }')
[ -n "$mirror" ] || { echo "apt knows no mirror of Debian $suite on this machine" >&2; exit 2; }
proxy=$(apt-config dump Acquire::http::Proxy 2>/dev/null | sed -n 's/.*"\(.*\)";/\1/p')

name=proctor-test-setup-$$
log=$(mktemp)
trap 'docker rm -f "$name" >/dev/null 2>&1; rm -f "$log"' EXIT
# The host's network, and its way to the mirror, for as long as it takes; nothing of either stays in the image.
docker run --name "$name" --network host "$base" sh -ec "
    export DEBIAN_FRONTEND=noninteractive ${proxy:+http_proxy='$proxy'}
    echo 'deb $mirror $suite main' >/etc/apt/sources.list
    printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d; chmod +x /usr/sbin/policy-rc.d
    apt-get update -q
    apt-get install -q -y --no-install-recommends $(echo "$packages" | tr '\n' ' ')
    rm -rf /usr/sbin/policy-rc.d /var/cache/apt/* /var/lib/apt/lists/*
    : >/etc/apt/sources.list
" >"$log" 2>&1 || { tail -20 "$log" >&2; exit 1; }
docker commit --change 'CMD ["/bin/sh"]' --change "LABEL proctor-test.recipe=$recipe" "$name" "$image" >/dev/null
echo "$image is made"
