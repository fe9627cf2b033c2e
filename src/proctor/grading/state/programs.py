"""The programs that a grader calls: which file each name stands for, and where that file comes from."""

import re
from collections.abc import Iterable, Sequence
from typing import Final, Literal

from proctor.core.environment import Environment
from proctor.core.errors import InfrastructureError
from proctor.core.record import Record

# Names that a script calls are among its words; words that are no program are looked up in vain, at no cost.
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.+-]*")
_MAX_WORDS: Final = 2000

# Argument: where to look; the names are its input, up to an empty line, so that nobody sees them among its arguments.
# Prints the names that are there, their places, the files behind all links, the beginnings of those, and their digests.
FIND_PROGRAMS: Final = r"""
places=$1; shift $#
while read -r name && [ -n "$name" ]; do
  rest=$places:
  while [ -n "$rest" ]; do
    place=${rest%%:*} rest=${rest#*:}
    [ -f "$place/$name" ] && [ -x "$place/$name" ] && set -- "$@" "$place/$name" && break
  done
done
[ $# -gt 0 ] || exit 0
printf '%s\n' "$@"
echo "=reals"; reals=$(readlink -f -- "$@"); printf '%s\n' "$reals"
IFS='
'
set -f; set -- $reals
echo "=kinds"
for real; do
  first=
  IFS= read -r first <"$real" 2>/dev/null
  case $first in "#!"*) echo script ;; ?ELF*) echo binary ;; *) echo other ;; esac
done
echo "=sums"; sha256sum -- "$@"
"""
# The files are its input. Prints what each is.
_FILE_KINDS: Final = r"""
while read -r real; do
  [ -f "$real" ] || { echo none; continue; }
  case $(head -c 4 "$real" | tr -d '\0') in "#!"*) echo script ;; ?ELF) echo binary ;; *) echo other ;; esac
done
"""
# The files are its input. Prints for each whether it is as the package that it belongs to brought it.
_PACKAGE_ORIGINS: Final = r"""
while read -r real; do
  owner=unknown md5=$(md5sum <"$real")
  for line in $(grep -hsF -e "  ${real#/}" -e "  ${real#/usr/}" /var/lib/dpkg/info/*.md5sums | tr ' ' '='); do
    file=/${line#*==}
    [ "$file" = "$real" ] || [ "$file" = "${real#/usr}" ] || continue
    owner=changed
    [ "${line%%==*}" = "${md5%% *}" ] && owner=packaged && break
  done
  echo "$owner"
done
"""
# What inspecting an environment takes.
TOOLS: Final = ("cat", "find", "grep", "head", "ls", "md5sum", "mkdir", "readlink", "rm", "sha256sum", "tail", "tr")
# Tools that no task is about: trusted copies of them are used in the place of whatever an agent made of them.
TRUSTED_TOOLS: Final = frozenset(
    """awk basename cat chmod cp cut date dirname echo env expr false find grep head id kill ls md5sum mkdir mktemp mv
    printf ps pwd readlink rm sed seq sha256sum sleep sort stat tail tee test timeout touch tr true uname uniq wc which
    xargs""".split()  # noqa: SIM905 - a list of words reads best as words
)
# Programs that a grader of ours starts with; a copy is put back where one of the image is no program any more.
INTERPRETERS: Final = re.compile(r"python[0-9.]*|pytest|curl|uvx?|perl|node")
# Programs that everybody has as a machine's code. As a script that no package brought, they are somebody's own.
NATIVE_PROGRAMS: Final = TRUSTED_TOOLS | frozenset(
    """bash curl dash ip jq lsof mariadb mongod mysql nc netstat nginx openssl postgres psql redis-cli redis-server sh
    sqlite3 ss ssh tar uv uvx wget""".split()  # noqa: SIM905 - likewise
)


class InstalledProgram(Record):
    """What a name stands for in an environment: where it is found, and (`real_path`) the file behind all links."""

    name: str
    path: str
    real_path: str
    kind: Literal["script", "binary", "other"]
    sha256: str


ProgramTable = dict[str, InstalledProgram]
# Whether a file is as a package of the distribution brought it; unknown: no package did.
PackageOrigin = Literal["packaged", "changed", "unknown"]


def script_words(*texts: str) -> tuple[str, ...]:
    """The words of scripts, each once: the programs that they call are among them."""
    words = dict.fromkeys(word for text in texts for word in _WORD.findall(text))
    return tuple(words)[:_MAX_WORDS]


async def find_programs(environment: Environment, names: Sequence[str], *, search_path: str, path: str) -> ProgramTable:
    """What these names stand for where `places` are searched; the tools that look are found on `path`.

    Raises:
        InfrastructureError: the environment cannot be inspected.
    """
    output = await _run_script(environment, FIND_PROGRAMS, dict.fromkeys(names), path, search_path)
    return parse_programs(output)


def parse_programs(output: str) -> ProgramTable:
    """The programs from what the script printed."""
    paths, _, rest = output.partition("\n=reals\n")
    reals, _, rest = rest.partition("\n=kinds\n")
    kinds, _, sums = rest.partition("\n=sums\n")
    digests = {file: digest for line in sums.splitlines() for digest, _, file in [line.partition("  ")]}
    found = zip(paths.splitlines(), reals.splitlines(), kinds.splitlines(), strict=False)
    return {
        (name := place.rpartition("/")[2]): InstalledProgram(
            name=name,
            path=place,
            real_path=real,
            kind=kind,  # type: ignore[arg-type]
            sha256=digests.get(real, ""),
        )
        for place, real, kind in found
    }


async def file_kinds(environment: Environment, files: Sequence[str], *, path: str) -> dict[str, str]:
    """What these files are: `binary`, `script` or `other`; `none` where there is no such file.

    Raises:
        InfrastructureError: the environment cannot be inspected.
    """
    if not files:
        return {}
    output = await _run_script(environment, _FILE_KINDS, files, path)
    return dict(zip(files, output.splitlines(), strict=False))


async def package_origins(environment: Environment, files: Sequence[str], *, path: str) -> dict[str, PackageOrigin]:
    """Where these files of an environment come from.

    Raises:
        InfrastructureError: the environment cannot be inspected.
    """
    if not files:
        return {}
    output = await _run_script(environment, _PACKAGE_ORIGINS, files, path)
    return dict(zip(files, output.splitlines(), strict=False))  # type: ignore[arg-type]


async def _run_script(environment: Environment, script: str, lines: Iterable[str], path: str, *arguments: str) -> str:
    asked = await environment.exec(
        ["/bin/sh", "-c", script, "sh", *arguments],
        stdin="".join(f"{line}\n" for line in lines).encode(),
        variables={"PATH": path},
        cwd="/",
        timeout=120,
    )
    if asked.exit_code not in {0, 1} or asked.timed_out:
        error = asked.stderr.decode("utf-8", "replace").strip()[-300:]
        raise InfrastructureError(f"the environment's programs cannot be inspected: {error or asked.exit_code}")
    return asked.stdout.decode("utf-8", "replace")
