"""A room for the tests of grading: plain processes in a directory, with nothing but the protocol of core."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from proctor.core.environment import COPY_BYTES, ExecResult, Output

PATH = "/usr/local/bin:/usr/bin:/bin"


class PlainRoom:
    """Runs commands on this machine, in `workdir`, with an environment made from nothing."""

    def __init__(self, workdir: Path, variables: Mapping[str, str] | None = None, prefix: Sequence[str] = ()) -> None:
        self._workdir = workdir
        self.prefix = prefix
        self.ran: list[Sequence[str]] = []
        scratch = workdir.with_name(f"{workdir.name}-scratch")
        scratch.mkdir(exist_ok=True)
        self.variables = {"PATH": PATH, "HOME": str(scratch), "TMPDIR": str(scratch), "LANG": "C.UTF-8"}
        self.variables |= variables or {}

    @property
    def workdir(self) -> str:
        return str(self._workdir)

    @property
    def digest(self) -> str:
        return "plain"

    @property
    def model_url(self) -> str | None:
        return None

    async def exec(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        variables: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
        on_stdout: Output | None = None,
        on_stderr: Output | None = None,
        output_bytes: int | None = None,
    ) -> ExecResult:
        started = time.monotonic()
        self.ran.append(argv)
        try:
            process = await asyncio.create_subprocess_exec(
                *self.prefix,
                *argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=cwd or self.workdir,
                env={**self.variables, **(variables or {})},
                start_new_session=True,
            )
        except FileNotFoundError:
            return ExecResult(exit_code=127, stdout=b"", stderr=b"not found", seconds=0.0)
        timed_out = False
        conversation = asyncio.ensure_future(process.communicate(stdin))
        try:
            stdout, stderr = await asyncio.wait_for(asyncio.shield(conversation), timeout)
        except TimeoutError:
            timed_out = True
            os.killpg(process.pid, signal.SIGKILL)
            stdout, stderr = await conversation
        code = process.returncode or 0
        return ExecResult(
            exit_code=128 - code if code < 0 else code,
            stdout=stdout,
            stderr=stderr,
            seconds=time.monotonic() - started,
            timed_out=timed_out,
        )

    async def put(self, source: Path | bytes, target: str, *, mode: int | None = None) -> None:
        raise NotImplementedError

    async def get(self, path: str, target: Path, *, max_bytes: int = COPY_BYTES) -> None:
        if Path(path).is_dir():
            shutil.copytree(path, target, symlinks=True)
        else:
            shutil.copyfile(path, target, follow_symlinks=False)

    async def stop(self) -> None:
        pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


def room_of(workdir: Path, files: Mapping[str, str | bytes], variables: Mapping[str, str] | None = None) -> PlainRoom:
    """A room whose workspace holds these files."""
    for name, content in files.items():
        path = workdir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    workdir.mkdir(parents=True, exist_ok=True)
    return PlainRoom(workdir, variables)


def interpreters() -> list[str]:
    """Every Python 3.6 or later on this machine, one of each minor version, this one first."""
    found = {sys.version_info[:2]: sys.executable}
    homes = sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob("versions/3.*/bin/python3"))
    for candidate in [*map(str, homes), *(f"/usr/bin/python3.{minor}" for minor in range(6, 20))]:
        if not Path(candidate).exists():
            continue
        answer = subprocess.run(
            [candidate, "-I", "-c", "import sys; print(*sys.version_info[:2])"],
            capture_output=True,
            text=True,
            check=False,
        )
        if answer.returncode == 0:
            major, minor = map(int, answer.stdout.split())
            if (major, minor) >= (3, 6):
                found.setdefault((major, minor), candidate)
    return list(found.values())
