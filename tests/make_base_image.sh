#!/bin/sh
# Makes the image that the Docker tests run in, from the machine's own Debian mirror, without a registry.
# Needs root, debootstrap and a Docker engine. Does nothing when the image is there, made by this very script.
#
#   tests/make_base_image.sh [NAME:TAG]
#
# The engine is the one that `docker` talks to (DOCKER_HOST).
set -eu

image=${1:-proctor-test/base:bookworm}
suite=bookworm
packages=python3,git,ca-certificates,procps

recipe=$(sha256sum "$0" | cut -c1-32)
if [ "$(docker image inspect --format '{{index .Config.Labels "proctor-test.recipe"}}' "$image" 2>&1)" = "$recipe" ]; then
    echo "$image is there"
    exit 0
fi
for program in debootstrap docker tar; do
    command -v "$program" >/dev/null || { echo "$program is missing: apt-get install debootstrap docker.io" >&2; exit 2; }
done

# The mirror that apt uses for this suite here, or the one that debootstrap takes by itself.
mirror=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Created-By: Packages' 2>/dev/null |
    awk -v suite="$suite" '$2 == suite { print $1; exit }')

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
debootstrap --variant=minbase --include="$packages" "$suite" "$root" ${mirror:+"$mirror"} >"$root.log" 2>&1 ||
    { tail -20 "$root.log" >&2; exit 1; }
rm -f "$root.log"
# Nothing of this machine stays in the image.
rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/etc/resolv.conf "$root"/etc/hostname
: >"$root/etc/apt/sources.list"
tar -C "$root" --one-file-system -c . | docker import --change "LABEL proctor-test.recipe=$recipe" - "$image" >/dev/null
echo "$image is made"
