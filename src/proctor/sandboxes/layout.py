"""Where things are: the root of the sandboxes, what a sandbox may be called, and the paths that h2 reads in it.

A sandbox is a whole H2_DIR at ``<root>/<name>``. What Proctor keeps for itself is in ``<root>/.proctor``, a name that
no sandbox can have.
"""

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from proctor.core.errors import UsageError

ROOT_VARIABLE: Final = "PROCTOR_SANDBOXES"
MANIFEST: Final = "sandbox.json"
MARKER: Final = ".h2-dir.txt"
ACCOUNT: Final = ".claude.json"
LONGEST_NAME: Final = 63

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]*")
_LONGEST_SOCKET: Final = 103  # bytes of a socket's path on macOS; Linux has 107
_LONGEST_AGENT: Final = "agent.twenty-letters-agent.sock"
# h2 measures with this name, and leaves the direct path once the sum is over 100 (its socketdir.go).
_H2_MEASURE: Final = "agent.long-agent-name-example.sock"
_H2_LIMIT: Final = 100


def default_root(environ: Mapping[str, str] = os.environ) -> Path:
    """Where sandboxes are unless a caller says otherwise: ``$PROCTOR_SANDBOXES``, else ``~/.h2/sandboxes``."""
    chosen = environ.get(ROOT_VARIABLE)
    if not chosen:
        return Path.home() / ".h2" / "sandboxes"
    return Path(os.path.expanduser(chosen))  # noqa: PTH111 - pathlib's raises for `~nobody`


def is_name(name: str) -> bool:
    """Whether a sandbox may be called that."""
    return len(name) <= LONGEST_NAME and _NAME.fullmatch(name) is not None


def check_name(name: str) -> str:
    """Return `name` if a sandbox may be called that.

    Raises:
        UsageError: it may not; says what a name looks like.
    """
    if is_name(name):
        return name
    if not _NAME.fullmatch(name):
        shown = ascii(name) if len(name) <= LONGEST_NAME else f"{name[:20]!a}…"
        raise UsageError(
            f"{shown} is not a name for a sandbox", fix="use lower-case letters, digits and dashes, as in bench-1"
        )
    raise UsageError(f"{name[:20]}… is {len(name)} characters long", fix=f"a sandbox's name has at most {LONGEST_NAME}")


def check_sockets_fit(home: Path, environ: Mapping[str, str] = os.environ) -> None:
    """Refuse a home in which no agent could open its socket: the system limits how long a socket's path is."""
    link = socket_link(home, temporary_directory(environ))
    longest = os.fsencode((link or home / "sockets") / _LONGEST_AGENT)
    if len(longest) > _LONGEST_SOCKET:
        raise UsageError(
            "agents could not open their sockets: this path and that of TMPDIR are both too long",
            where=home,
            fix=f"set TMPDIR or {ROOT_VARIABLE} to a shorter path",
        )


def temporary_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """The directory for temporary files as Go programs see it."""
    return Path(environ.get("TMPDIR") or "/tmp")  # noqa: S108 - Go's own default


def socket_link(home: Path, temporary: Path) -> Path | None:
    """The symlink through which h2 reaches the sockets of a home with a long path; None if it needs none."""
    sockets = home / "sockets"
    if len(os.fsencode(sockets / _H2_MEASURE)) <= _H2_LIMIT:
        return None
    return temporary / f"h2-{hashlib.sha256(os.fsencode(sockets)).hexdigest()[:16]}"


def config_directory(home: Path) -> Path:
    """Claude Code's configuration in this sandbox."""
    return home / "claude-config" / "default"


def h2_root(home: Path) -> Path:
    """What h2 would otherwise keep once per machine, kept here once per sandbox."""
    return home / "h2-root"
