"""Credentials: how they come into a sandbox, and how they live through a reset.

They are the only thing that a reset keeps. It keeps the very files, by hard link, so that not a byte of them is
written again; the old tree goes only after the new one, which holds them too, is in its place.
"""

import errno
import os
import shutil
import stat
from pathlib import Path
from typing import Any, Final

from proctor.core.errors import UsageError
from proctor.core.user_files import parse_json, read_limited
from proctor.sandboxes.layout import ACCOUNT, config_directory

TOKENS: Final = ".credentials.json"
# Which files hold them, in every profile under these directories: h2 lets a sandbox have more profiles than one.
_CREDENTIAL_FILES: Final = (("claude-config", ACCOUNT), ("claude-config", TOKENS), ("codex-config", "auth.json"))
_MODE: Final = 0o600
_NO_HARD_LINKS: Final = {errno.EPERM, errno.EXDEV, errno.EMLINK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}


def source_directory(named: str | None) -> Path | None:
    """Where to copy credentials from: the directory that the user names, else h2's own if there is one.

    Raises:
        UsageError: the name is empty, as from a variable that was not set.
    """
    if named is None:
        own = Path.home() / ".h2" / "claude-config" / "default"
        return own if own.is_dir() else None
    if not named:
        raise UsageError("the directory to copy credentials from has an empty name")
    return Path(os.path.expanduser(named))  # noqa: PTH111 - pathlib's raises for `~nobody`


class Credentials:
    """What was found in a configuration directory, read and checked before anything is made."""

    def __init__(self, source: Path | None) -> None:
        """Read `source`; None, or a directory without credentials, gives none.

        Raises:
            UsageError: it is not a directory, or what is in it cannot be read.
        """
        self._account: dict[str, Any] | None = None
        self._account_bytes: bytes | None = None
        self._tokens: bytes | None = None
        if source is None:
            return
        if not os.path.isdir(source):  # noqa: PTH112 - pathlib's raises for a name that is too long
            raise UsageError(
                "is not a directory" if os.path.lexists(source) else "there is no such directory",
                where=source,
                fix="--auth-from takes a Claude Code configuration directory",
            )
        self._tokens = _read(source / TOKENS)
        self._account_bytes = _read(source / ACCOUNT)
        if self._account_bytes is not None:
            self._account = parse_json_object(self._account_bytes, source / ACCOUNT)

    def write(self, home: Path, seed: bytes | None) -> None:
        """Put them into a new home.

        Args:
            home: its tree, so far without credentials.
            seed: the preset's own ``.claude.json``, merged over that of the account: it answers the questions that
                Claude Code would otherwise stop and ask at its first start.
        """
        directory = config_directory(home)
        if seed is not None:
            _write(
                directory / ACCOUNT,
                _encode(_merge(self._account or {}, parse_json_object(seed, "the preset's .claude.json"))),
            )
        elif self._account_bytes is not None:
            _write(directory / ACCOUNT, self._account_bytes)
        if self._tokens is not None:
            _write(directory / TOKENS, self._tokens)


def link_credentials(old: Path, new: Path, seed: bytes | None) -> None:
    """Give the tree `new` the credentials of the tree `old`, which keeps them too; `seed` if there is no account."""
    for place, name in _CREDENTIAL_FILES:
        for profile in _directories(old / place):
            source, target = profile / name, new / place / profile.name / name
            try:
                mode = source.lstat().st_mode
            except OSError:
                continue
            if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
                continue
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if stat.S_ISLNK(mode):
                target.symlink_to(source.readlink())
            else:
                _link(source, target)
    account = config_directory(new) / ACCOUNT
    if seed is not None and not os.path.lexists(account):
        _write(account, seed)


def _directories(place: Path) -> list[Path]:
    if place.is_symlink() or not place.is_dir():
        return []
    with os.scandir(place) as entries:
        return [Path(entry) for entry in entries if entry.is_dir(follow_symlinks=False)]


def _link(source: Path, target: Path) -> None:
    try:
        target.hardlink_to(source)
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        shutil.copy2(source, target)
        with target.open("rb") as copy:
            os.fsync(copy.fileno())


def _read(path: Path) -> bytes | None:
    try:
        if not path.exists():
            return None
        if not path.is_file():
            raise UsageError("is not a plain file", where=path)
        return read_limited(path)
    except (OSError, ValueError) as error:
        message = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"cannot be read: {message}", where=path) from error


def parse_json_object(data: bytes, where: object) -> dict[str, Any]:
    """The object in a JSON file.

    Raises:
        UsageError: there is none.
    """
    try:
        value = parse_json(data)
    except ValueError as error:
        raise UsageError(f"is not valid JSON: {error}", where=where) from error
    if not isinstance(value, dict):
        raise UsageError("is not a JSON object", where=where)
    return value


def _encode(value: dict[str, Any]) -> bytes:
    import json

    return json.dumps(value, indent=2).encode() + b"\n"


def _merge(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        merged[key] = _merge(under, value) if isinstance(under, dict) and isinstance(value, dict) else value
    return merged


def _write(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, _MODE)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, _MODE)  # whatever the umask takes away
        file.write(data)
        file.flush()
        os.fsync(descriptor)
