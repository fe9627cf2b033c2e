"""What a Dockerfile says of how its containers start."""

import posixpath
import re
from typing import Final

import msgspec

from proctor.core.record import Record

_INSTRUCTION: Final = re.compile(r"^[ \t]*(FROM|WORKDIR|ENTRYPOINT)[ \t]+(.+?)[ \t]*$", re.IGNORECASE | re.MULTILINE)
_ROOT: Final = frozenset({"", "root", "0", "root:root", "0:0"})


class ContainerStart(Record):
    """How a container starts, as far as its Dockerfile says: where, and what runs its command.

    An empty `workdir` is that of the image: none is named, or one below the image's own, or by a variable.
    """

    workdir: str = ""
    entrypoint: tuple[str, ...] = ()


def container_start(dockerfile: str) -> ContainerStart:
    """How a container of this Dockerfile's last stage starts. What the image below it says is not known here."""
    start = ContainerStart()
    lines = dockerfile.replace("\r\n", "\n").replace("\\\n", " ")
    for word, rest in _INSTRUCTION.findall(lines):
        match word.upper():
            case "FROM":
                start = ContainerStart()
            case "WORKDIR":
                place = posixpath.normpath(posixpath.join(start.workdir, rest.strip("\"'")))
                start = msgspec.structs.replace(start, workdir=place if place.startswith("/") else "")
            case _:
                start = msgspec.structs.replace(start, entrypoint=_entrypoint(rest))
    return msgspec.structs.replace(start, workdir="") if "$" in start.workdir else start


def is_root(user: str | None) -> bool:
    """Whether a user is the one who may do everything, which is who commands run as where none is named."""
    return user is None or user in _ROOT


def _entrypoint(text: str) -> tuple[str, ...]:
    """A list of words, or a line for a shell."""
    try:
        words = msgspec.json.decode(text, type=tuple[str, ...])
    except (msgspec.DecodeError, RecursionError):
        return ("/bin/sh", "-c", text)
    return words
