"""What a sandbox is, on disk and in memory."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Final, Literal

from proctor.core.errors import InvalidData
from proctor.core.files import write_atomic
from proctor.core.record import Record, from_json, to_json
from proctor.core.trees import is_directory, read_regular_file
from proctor.sandboxes.auth import AuthState
from proctor.sandboxes.first_run_dialogs import folders_in, preset_account
from proctor.sandboxes.layout import ACCOUNT, MANIFEST, MARKER, config_directory
from proctor.sandboxes.preset import Preset
from proctor.sandboxes.staging import StagingArea
from proctor.sandboxes.variables import sandbox_variables

_DIRECTORIES: Final = (
    "claude-config/default",
    "codex-config/default",
    "h2-root",
    "logs",
    "messages",
    "pods",
    "projects",
    "roles",
    "sessions",
    "sockets",
    "worktrees",
)
_MARK: Final = b"Made by Proctor.\n"
_LOCK_SECONDS: Final = 60.0


class SandboxManifest(Record):
    """What ``sandbox.json`` says: how the sandbox was made, so that a reset can make it so again.

    Attributes:
        preset: the preset's name.
        created: when the sandbox was created; resets do not change it.
        preset_path: the preset's folder, if it was given by its path.
        model: the model it was built with, for a preset that has one.
    """

    preset: str
    created: datetime
    preset_path: str | None = None
    model: str | None = None
    schema_version: Literal["proctor.sandbox@1"] = "proctor.sandbox@1"


class Sandbox(Record):
    """A sandbox: a name, and the H2_DIR `home` behind it.

    `preset` and `created` are None when somebody has damaged its ``sandbox.json``.
    """

    name: str
    home: Path
    preset: str | None = None
    preset_path: str | None = None
    model: str | None = None
    created: datetime | None = None

    def variables(self, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
        """The environment of a command that runs in this sandbox, made from `environ`."""
        return sandbox_variables(self.home, environ)

    def enter(
        self, command: Sequence[str] = (), *, cwd: Path | None = None, environ: Mapping[str, str] = os.environ
    ) -> dict[str, str]:
        """The same, once all is answered that Claude Code would ask where this command runs.

        Raises:
            RetryableError: another command works on the sandbox.
        """
        folders = folders_in(command, cwd or Path())
        if preset_account(self.home, environ, folders) is not None:
            with StagingArea(self.home.parent).lock(self.name, wait_seconds=_LOCK_SECONDS):
                account = preset_account(self.home, environ, folders)
                if account is not None:
                    write_atomic(config_directory(self.home) / ACCOUNT, account, mode=0o600)
        return self.variables(environ)

    def run(
        self,
        command: Sequence[str],
        *,
        stdin: str = "",
        timeout: float | None = None,
        cwd: Path | None = None,
        variables: Mapping[str, str] | None = None,
        check: bool = False,
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command in this sandbox to its end. What it leaves running is ended by a reset.

        Args:
            command: program and arguments.
            stdin: what the command reads.
            timeout: seconds after which `subprocess.TimeoutExpired` is raised.
            cwd: where it runs; the current directory by default.
            variables: set for this command beside the sandbox's own.
            check: raise `subprocess.CalledProcessError` if it fails.
        """
        environ = self.enter(command, cwd=cwd, environ={**os.environ, **(variables or {})})
        return subprocess.run(
            list(command),
            input=stdin,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            cwd=cwd,
            env=environ,
            check=check,
        )


class SandboxRow(Record):
    """One row of the list of sandboxes."""

    name: str
    preset: str | None
    model: str | None
    auth: AuthState
    agents: int
    created: datetime | None
    home: str
    schema_version: Literal["proctor.sandbox_row@1"] = "proctor.sandbox_row@1"


def read_sandbox(home: Path) -> Sandbox:
    """What is at `home`, whatever state it is in."""
    data = read_regular_file(home, MANIFEST)
    try:
        manifest = from_json(data or b"", SandboxManifest)
    except InvalidData:
        return Sandbox(name=home.name, home=home)
    return Sandbox(
        name=home.name,
        home=home,
        preset=manifest.preset,
        preset_path=manifest.preset_path,
        model=manifest.model,
        created=manifest.created,
    )


def build_sandbox(target: Path, preset: Preset, model: str | None, *, created: datetime) -> None:
    """Make the tree of a sandbox, without credentials, at `target`."""
    target.mkdir(mode=0o700)
    files = preset.render(model)
    folders = {folder for path in files for folder in _folders_above(path)}.union(
        *({directory, *_folders_above(directory)} for directory in _DIRECTORIES)
    )
    for folder in sorted(folders):
        os.mkdir(f"{target}/{folder}", 0o700)  # noqa: PTH102 - pathlib takes longer than the kernel
    for path, file in files.items():
        _write(f"{target}/{path}", file.content, 0o700 if file.executable else 0o600)
    manifest = SandboxManifest(
        preset=preset.name, preset_path=preset.path, model=model, created=created.replace(microsecond=0)
    )
    _write(f"{target}/{MARKER}", _MARK, 0o600)
    _write(f"{target}/{MANIFEST}", to_json(manifest), 0o600)


def _folders_above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:depth]) for depth in range(1, len(parts))]


def _write(path: str, content: bytes, mode: int) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)


def is_sandbox(home: Path) -> bool:
    """Whether this directory is one of ours: an agent may have removed one of the two signs, h2 makes neither."""
    return is_directory(home) and (
        read_regular_file(home, MANIFEST) is not None or read_regular_file(home, MARKER) == _MARK
    )


class PathKind(StrEnum):
    """What is at the place of a sandbox."""

    NOTHING = "nothing"
    SANDBOX = "a sandbox"
    SYMLINK = "a symlink"
    OTHER = "something else"


def path_kind(home: Path) -> PathKind:
    """What is there; to be asked once, since it may change between two questions."""
    if is_sandbox(home):
        return PathKind.SANDBOX
    if not os.path.lexists(home):
        return PathKind.NOTHING
    return PathKind.SYMLINK if home.is_symlink() else PathKind.OTHER
