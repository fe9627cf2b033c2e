"""Programs of packages that an agent has installed, compared with the packages as the distribution's archive has them.

The machine's own database of packages says only where a file claims to come from: its root can write anything there.
The package itself is fetched in an environment that nobody has worked in.
"""

import shlex
from collections.abc import Sequence
from typing import Final, Literal

from proctor.core.environment import Checkpoint, Environment
from proctor.core.errors import InfrastructureError
from proctor.core.record import Record
from proctor.grading.state.programs import InstalledProgram

# Whether a file is as the archive has it; absent: the archive has no such package; unreachable: it cannot be asked.
ArchiveOrigin = Literal["verified", "differs", "absent", "unreachable"]

# The files are its input. Prints the package and version that each claims to come from, or a line with nothing.
_READ_CLAIMS: Final = r"""
while read -r file; do
  list=$(grep -lsx -e "$file" -e "${file#/usr}" /var/lib/dpkg/info/*.list | head -n 1)
  name=${list##*/}; name=${name%.list}; name=${name%%:*}
  version=$(awk -v wanted="$name" '
    $1 == "Package:" { found = $2 == wanted }
    found && $1 == "Version:" { print $2; exit }' /var/lib/dpkg/status)
  echo "$name $version"
done
"""
# Lines of its input: a package, its version, and a file of it. Prints the file's digest, or why there is none.
_FETCH: Final = r"""
scratch=$(mktemp -d) && cd "$scratch" || exit 1
apt-get -o APT::Update::Error-Mode=any -qq update >/dev/null 2>&1 || exit 0
[ -n "$(apt-get indextargets 2>/dev/null)" ] || exit 0
while read -r name version file; do
  rm -rf package && mkdir package && cd package || exit 1
  if ! apt-cache madison "$name" 2>/dev/null | tr -d ' ' | grep -qF "|$version|"; then
    echo absent
  elif ! apt-get -qq download "$name=$version" >/dev/null 2>&1; then
    echo unreachable
  else
    dpkg-deb --fsys-tarfile ./*.deb >all.tar
    { tar -xOf all.tar ".$file" || tar -xOf all.tar ".${file#/usr}"; } 2>/dev/null >file || : >file
    sha256sum <file
  fi
  cd ..
done
"""
_SECONDS: Final = 180


class _Claim(Record):
    program: InstalledProgram
    package: str
    version: str


async def compare_with_archive(
    environment: Environment, checkpoint: Checkpoint, programs: Sequence[InstalledProgram], *, path: str
) -> dict[str, ArchiveOrigin]:
    """Where these programs stand, by the paths of their files."""
    claims = await _read_claims(environment, programs, path)
    origins: dict[str, ArchiveOrigin] = {program.real_path: "absent" for program in programs}
    asked = [claim for claim in claims if claim.package and claim.version]
    if not asked:
        return origins
    lines = "".join(f"{claim.package} {claim.version} {claim.program.real_path}\n" for claim in asked)
    try:
        async with await checkpoint.original() as original:
            done = await original.exec(["/bin/sh", "-c", _FETCH], stdin=lines.encode(), cwd="/", timeout=_SECONDS)
    except InfrastructureError:
        return {**origins, **{claim.program.real_path: "unreachable" for claim in asked}}
    answers = done.stdout.decode("utf-8", "replace").splitlines() if not done.timed_out else []
    for number, claim in enumerate(asked):
        answer = answers[number].split()[0] if number < len(answers) and answers[number].strip() else "unreachable"
        if answer in {"absent", "unreachable"}:
            origins[claim.program.real_path] = "absent" if answer == "absent" else "unreachable"
        else:
            origins[claim.program.real_path] = "verified" if answer == claim.program.sha256 else "differs"
    return origins


async def _read_claims(environment: Environment, programs: Sequence[InstalledProgram], path: str) -> list[_Claim]:
    done = await environment.exec(
        ["/bin/sh", "-c", _READ_CLAIMS],
        stdin="".join(f"{program.real_path}\n" for program in programs).encode(),
        variables={"PATH": path},
        cwd="/",
        timeout=60,
    )
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    claims = []
    for program, line in zip(programs, lines, strict=False):
        package, _, version = line.partition(" ")
        plain = all(shlex.quote(word) == word or not word for word in (package, version.replace("~", "-")))
        claims.append(
            _Claim(program=program, package=package if plain else "", version=version.strip() if plain else "")
        )
    return claims
