"""A room without walls, for tests of what speaks to rooms: commands run in a folder of the test, as they are."""

import asyncio
import contextlib
import os
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from proctor.core.environment import COPY_BYTES, ExecResult, Output


class LocalRoom:
    """Implements `Environment` with plain processes. `log` has every command that ran."""

    digest = "local-room"
    model_url = None

    def __init__(self, workspace: Path) -> None:
        self.workdir = str(workspace)
        self.log: list[tuple[str, ...]] = []

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
        self.log.append(tuple(argv))
        started = time.monotonic()
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env={"PATH": "/usr/local/bin:/usr/bin:/bin", **(variables or {})},
                cwd=cwd or self.workdir,
                start_new_session=True,
            )
        except FileNotFoundError as error:
            return ExecResult(exit_code=127, stdout=b"", stderr=str(error).encode(), seconds=0.0)
        talk = asyncio.ensure_future(process.communicate(stdin))
        done, _ = await asyncio.wait({talk}, timeout=timeout)
        if not done:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        stdout, stderr = await talk
        code = process.returncode or 0
        return ExecResult(
            exit_code=128 - code if code < 0 else code,
            stdout=stdout if output_bytes is None else stdout[:output_bytes],
            stderr=stderr,
            seconds=time.monotonic() - started,
            timed_out=not done,
            truncated=output_bytes is not None and len(stdout) > output_bytes,
        )

    async def put(self, source: Path | bytes, target: str, *, mode: int | None = None) -> None:
        path = Path(target)
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(source, bytes):
            path.write_bytes(source)
        elif source.is_dir():
            shutil.copytree(source, path, symlinks=True, dirs_exist_ok=True)
        else:
            shutil.copy2(source, path)

    async def get(self, path: str, target: Path, *, max_bytes: int = COPY_BYTES) -> None:
        shutil.copytree(path, target, symlinks=True)

    async def stop(self) -> None:
        return

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return
