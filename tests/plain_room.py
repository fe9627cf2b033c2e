"""Rooms for tests of what runs in rooms: plain processes in a folder, or the same behind bubblewrap.

They keep the promises of `proctor.core.environment.Environment` that agents rely on, and no others.
"""

import asyncio
import os
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from proctor.core.environment import COPY_BYTES, EnvironmentSpec, ExecResult, Output
from proctor.core.programs import find_bubblewrap

PATH = "/usr/local/bin:/usr/bin:/bin"


class PlainRoom:
    """Commands run as processes of this machine, with an environment of their own."""

    digest = "plain"

    def __init__(self, folder: Path, spec: EnvironmentSpec | None = None, *, model_url: str | None = None) -> None:
        self.spec = spec or EnvironmentSpec()
        self.model_url = model_url
        for name in ("workspace", "home", "tmp"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.variables = {"PATH": PATH, "HOME": f"{folder}/home", "TMPDIR": f"{folder}/tmp", "LC_ALL": "C.UTF-8"}

    @property
    def workdir(self) -> str:
        return str(self.folder / "workspace")

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
        environment = {**self.variables, **self.spec.variables, **(variables or {})}
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command(argv, environment, cwd or self.workdir),
                env=environment,
                cwd=self.folder / "workspace",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except FileNotFoundError:
            return ExecResult(exit_code=127, stdout=b"", stderr=b"", seconds=0.0)
        assert process.stdout is not None
        assert process.stderr is not None
        pumps = [
            asyncio.create_task(_pump(stream, output, 10_000_000 if output_bytes is None else output_bytes))
            for stream, output in ((process.stdout, on_stdout), (process.stderr, on_stderr))
        ]
        feeding = asyncio.create_task(_feed(process, stdin))
        timed_out = False
        try:
            try:
                await asyncio.wait_for(process.wait(), timeout)
            except TimeoutError:
                timed_out = True
            finally:
                with suppress(ProcessLookupError):
                    if process.returncode is None:
                        os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
            # Something may have been left behind that holds the pipes open; it is not waited for.
            done, _ = await asyncio.wait(pumps, timeout=0.3)
            kept = [pump.result() if pump in done else b"" for pump in pumps]
        finally:
            for task in (*pumps, feeding):
                task.cancel()
            await asyncio.gather(*pumps, feeding, return_exceptions=True)
            process._transport.close()  # type: ignore[attr-defined]
        code = process.returncode or 0
        return ExecResult(
            exit_code=code if code >= 0 else 128 - code,
            stdout=kept[0],
            stderr=kept[1],
            seconds=time.monotonic() - started,
            timed_out=timed_out,
        )

    async def put(self, source: Path | bytes, target: str, *, mode: int | None = None) -> None:
        place = Path(target)
        place.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(source, bytes):
            place.write_bytes(source)
        else:
            shutil.copy2(source, place)
        if mode is not None:
            place.chmod(mode)

    async def get(self, path: str, target: Path, *, max_bytes: int = COPY_BYTES) -> None:
        shutil.copy2(path, target)

    async def stop(self) -> None:
        pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _command(self, argv: Sequence[str], environment: Mapping[str, str], cwd: str) -> list[str]:
        return list(argv)


class MountedRoom(PlainRoom):
    """Shows the system, what the spec mounts, and nothing else. Each command has a process namespace of its own."""

    workdir = "/workspace"

    def _command(self, argv: Sequence[str], environment: Mapping[str, str], cwd: str) -> list[str]:
        program = find_bubblewrap()
        assert program is not None
        words = [str(program.path), "--unshare-user", "--unshare-pid", "--die-with-parent", "--proc", "/proc"]
        words += ["--dev", "/dev", "--ro-bind", "/usr", "/usr", "--ro-bind", "/etc", "/etc"]
        for name in ("bin", "lib", "lib64"):
            words += ["--symlink", f"usr/{name}", f"/{name}"]
        words += ["--bind", str(self.folder / "workspace"), "/workspace", "--bind", str(self.folder / "tmp"), "/tmp"]
        for mount in self.spec.mounts:
            words += ["--bind" if mount.writable else "--ro-bind", mount.source, mount.target]
        return [*words, "--chdir", cwd, "--setenv", "HOME", "/tmp", "--unsetenv", "TMPDIR", "--", *argv]


async def _pump(stream: asyncio.StreamReader, output: Output | None, most: int) -> bytes:
    kept = bytearray()
    while data := await stream.read(65536):
        kept += data[: most - len(kept)]
        if output is not None:
            output(data)
    return bytes(kept)


async def _feed(process: asyncio.subprocess.Process, data: bytes) -> None:
    assert process.stdin is not None
    with suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(data)
        await process.stdin.drain()
    process.stdin.close()
