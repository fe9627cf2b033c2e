"""The programs that a grader calls: which file each name stands for, and where that file comes from."""

import re
from collections.abc import Sequence
from typing import Final, Literal

from proctor.core.environment import Environment
from proctor.core.errors import InfrastructureError
from proctor.core.record import Record

# Names that a script calls are among its words; words that are no program are looked up in vain, at no cost.
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.+-]*")
_WORDS_AT_MOST: Final = 2000

# Argument: where to look; the names are its input, so that nobody sees them among its arguments. A line for each that
# is there: name, place, the file behind all links, its kind, its digest, and whether it is as its package brought it.
_SURVEY: Final = r"""
places=$1
while read -r name; do
  rest=$places: path=
  while [ -n "$rest" ]; do
    place=${rest%%:*} rest=${rest#*:}
    [ -f "$place/$name" ] && [ -x "$place/$name" ] && path=$place/$name && break
  done
  [ -n "$path" ] || continue
  real=$(readlink -f "$path") || continue
  first=
  IFS= read -r first <"$real" 2>/dev/null
  case $first in "#!"*) kind=script ;; ?ELF*) kind=binary ;; *) kind=other ;; esac
  sum=$(sha256sum <"$real") owner=unknown md5=
  for line in $(grep -hsF -e "  ${real#/}" -e "  ${real#/usr/}" /var/lib/dpkg/info/*.md5sums | tr ' ' '='); do
    file=/${line#*==}
    [ "$file" = "$real" ] || [ "$file" = "${real#/usr}" ] || continue
    [ -n "$md5" ] || md5=$(md5sum <"$real")
    [ "${line%%==*}" = "${md5%% *}" ] && owner=packaged && break
    owner=changed
  done
  printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$name" "$path" "$real" "$kind" "${sum%% *}" "$owner"
done
"""
TOOLS: Final = ("cat", "find", "grep", "head", "ls", "md5sum", "mkdir", "readlink", "rm", "sha256sum", "tail", "tr")


class Program(Record):
    """What a name stands for in a room.

    Attributes:
        path: where it is found; `real`: the file behind all links.
        owner: whether the file is as a package of the distribution brought it; unknown: no package did.
    """

    name: str
    path: str
    real: str
    kind: Literal["script", "binary", "other"]
    sha256: str
    owner: Literal["packaged", "changed", "unknown"]


Survey = dict[str, Program]


def words_of(*texts: str) -> tuple[str, ...]:
    """The words of scripts, each once: the programs that they call are among them."""
    words = dict.fromkeys(word for text in texts for word in _WORD.findall(text))
    return tuple(words)[:_WORDS_AT_MOST]


async def survey(environment: Environment, names: Sequence[str], *, places: str, path: str) -> Survey:
    """What these names stand for where `places` are searched; the tools that look are found on `path`.

    Raises:
        InfrastructureError: the room cannot be looked at.
    """
    asked = await environment.exec(
        ["/bin/sh", "-c", _SURVEY, "sh", places],
        stdin="".join(f"{name}\n" for name in dict.fromkeys(names)).encode(),
        variables={"PATH": path},
        cwd="/",
        timeout=120,
    )
    if asked.exit_code != 0 or asked.timed_out:
        said = asked.stderr.decode("utf-8", "replace").strip()[-300:]
        raise InfrastructureError(f"the room's programs cannot be looked at: {said or asked.exit_code}")
    return {
        program.name: program
        for line in asked.stdout.decode("utf-8", "replace").splitlines()
        if (program := _read(line))
    }


def _read(line: str) -> Program | None:
    parts = line.split("\t")
    if len(parts) != len(Program.__struct_fields__):
        return None
    name, path, real, kind, sha256, owner = parts
    return Program(name=name, path=path, real=real, kind=kind, sha256=sha256, owner=owner)  # type: ignore[arg-type]
