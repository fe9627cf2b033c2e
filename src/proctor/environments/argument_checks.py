"""What every kind of environment asks of a command and of a path."""

import posixpath
from collections.abc import Mapping, Sequence

from proctor.core.errors import UsageError


def check_command(argv: Sequence[str], variables: Mapping[str, str], cwd: str) -> None:
    """Refuse what no program can be started with."""
    if not argv or not argv[0]:
        raise UsageError("there is no command to run")
    if any("\0" in text for text in (*argv, *variables, *variables.values(), cwd)):
        raise UsageError("a command cannot hold a NUL byte", where=argv[0])
    if any(not name or "=" in name for name in variables):
        raise UsageError("a variable's name is empty or holds '='", where=argv[0])


def split_path(path: str) -> tuple[str, str]:
    """The directory and the name of an absolute path inside an environment."""
    folder, name = posixpath.split(posixpath.normpath(path))
    if not folder.startswith("/") or not name or "\0" in path:
        raise UsageError(f"a path in an environment must be absolute, and not the root: {path!r}")
    return folder, name
