"""What a sandbox is, on disk and in memory."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Literal

from proctor.core.errors import InvalidData
from proctor.core.record import Record, from_json
from proctor.sandboxes.auth import Auth
from proctor.sandboxes.layout import MANIFEST
from proctor.sandboxes.trees import read_plain
from proctor.sandboxes.variables import sandbox_variables


class Manifest(Record):
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
            cwd: where it runs; here, if not said.
            variables: set for this command beside the sandbox's own.
            check: raise `subprocess.CalledProcessError` if it fails.
        """
        environ = self.variables({**os.environ, **(variables or {})})
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


class Listing(Record):
    """One row of the list of sandboxes."""

    name: str
    preset: str | None
    model: str | None
    auth: Auth
    agents: int
    created: datetime | None
    home: str


def read_sandbox(home: Path) -> Sandbox:
    """What is at `home`, whatever state it is in."""
    data = read_plain(home, MANIFEST)
    try:
        manifest = from_json(data or b"", Manifest)
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
