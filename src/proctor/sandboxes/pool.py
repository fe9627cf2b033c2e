"""A pool of sandboxes: created once, and reset before each use."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from proctor.core.errors import UsageError
from proctor.core.files import write_atomic
from proctor.core.user_files import parse_json, read_limited
from proctor.sandboxes.sandbox import Sandbox
from proctor.sandboxes.store import Sandboxes

_ACCOUNT_FILE: Final = ".claude.json"
_CREDENTIALS_FILE: Final = ".credentials.json"
_MIN_SECRET_LENGTH: Final = 20


class SandboxPool:
    """A pool of sandboxes. As many as are in use at once are made; all are destroyed in the end.

    A reset keeps a sandbox's credentials, and an agent may have written there for the next one to read. So the
    account is put back as it was made, and where no login is meant to be in the sandbox, none is left there.

    Args:
        root: where they are kept.
        preset: what they are made from.
        auth_from: a Claude Code configuration with the login that is to be in them; none by default.
    """

    def __init__(self, root: Path, *, preset: str, auth_from: Path | None = None) -> None:
        self._sandboxes = Sandboxes(root)
        self._preset = preset
        self._auth_from = auth_from
        self._free: list[str] = []
        self._created = 0
        self._account: bytes | None = None

    def check(self) -> None:
        """Raise what making one would raise, and make none.

        Raises:
            UsageError: the preset or the login cannot be used.
        """
        self._sandboxes.check_create(["s1"], preset=self._preset, model=None, auth_from=self._auth_from)
        if self._auth_from is not None and not login_secrets(self._auth_from):
            raise UsageError(
                "there is no login to let through", where=self._auth_from, fix="log in there, or use a key instead"
            )

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[Path]:
        """A sandbox as its preset made it, for the length of the block."""
        if self._free:
            name = self._free.pop()
            sandbox = await asyncio.to_thread(self._reset, name)
        else:
            self._created += 1
            name = f"s{self._created}"
            sandbox = await asyncio.to_thread(self._create, name)
        try:
            yield sandbox.home
        finally:
            self._free.append(name)

    async def close(self) -> None:
        """Stop whatever runs in them, and remove them."""
        while self._free:
            await asyncio.to_thread(self._sandboxes.destroy, self._free.pop())

    def _create(self, name: str) -> Sandbox:
        sandbox = self._sandboxes.create(name, preset=self._preset, auth_from=self._auth_from)
        account = _claude_config_dir(sandbox) / _ACCOUNT_FILE
        if self._account is None and account.exists():
            self._account = account.read_bytes()
        return sandbox

    def _reset(self, name: str) -> Sandbox:
        config = _claude_config_dir(self._sandboxes.get(name))
        if config.is_dir() and not config.is_symlink():
            (config / _ACCOUNT_FILE).unlink(missing_ok=True)
            if self._account is not None:
                write_atomic(config / _ACCOUNT_FILE, self._account, mode=0o600)
            if self._auth_from is None:
                (config / _CREDENTIALS_FILE).unlink(missing_ok=True)
        # The preset is given again: an agent can change what the sandbox has stored of it.
        return self._sandboxes.reset(name, preset=self._preset)


def login_secrets(login: Path | None) -> tuple[str, ...]:
    """What of a Claude Code configuration's login must never be written down."""
    if login is None:
        return ()
    try:
        document = parse_json(read_limited(login / _CREDENTIALS_FILE))
    except (OSError, ValueError):
        return ()
    return tuple(sorted({text for text in _strings(document) if len(text) >= _MIN_SECRET_LENGTH}))


def _claude_config_dir(sandbox: Sandbox) -> Path:
    return sandbox.home / "claude-config" / "default"


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item)
