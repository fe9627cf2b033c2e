"""Environments for tests of what runs in environments: plain processes in a folder, or the same behind bubblewrap.

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

from proctor.core.environment import (
    MAX_COPY_BYTES,
    Environment,
    EnvironmentSpec,
    ExecResult,
    OutputCallback,
)
from proctor.core.programs import find_bubblewrap

PATH = "/usr/local/bin:/usr/bin:/bin"


class PlainEnvironment(Environment):
    """Commands run as processes of this machine, with an environment of their own.

    Args:
        folder: the environment's own; its home and temporary files lie in it.
        workspace: where the code is; by default, a folder in `folder`.
        prefix: words that go before every command.

    Attributes:
        ran: every command that was run.
    """

    digest = "plain"
    model_url: str | None = None

    def __init__(
        self,
        folder: Path,
        spec: EnvironmentSpec | None = None,
        *,
        workspace: Path | None = None,
        model_url: str | None = None,
        variables: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
    ) -> None:
        self.spec = spec or EnvironmentSpec()
        self.model_url = model_url
        self.folder = folder
        self.workspace = workspace or folder / "workspace"
        self.prefix = prefix
        self.ran: list[tuple[str, ...]] = []
        for place in (self.workspace, folder / "home", folder / "tmp"):
            place.mkdir(parents=True, exist_ok=True)
        self.variables = {"PATH": PATH, "HOME": f"{folder}/home", "TMPDIR": f"{folder}/tmp", "LC_ALL": "C.UTF-8"}
        self.variables |= variables or {}

    @property
    def workdir(self) -> str:
        return str(self.workspace)

    async def exec(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        variables: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
        on_stdout: OutputCallback | None = None,
        on_stderr: OutputCallback | None = None,
        output_bytes: int | None = None,
        user: str | None = None,
    ) -> ExecResult:
        started = time.monotonic()
        self.ran.append(tuple(argv))
        environment = {**self.variables, **self.spec.variables, **(variables or {})}
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command([*self.prefix, *argv], cwd or self.workdir),
                env=environment,
                cwd=self._place(cwd),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except FileNotFoundError:
            return ExecResult(exit_code=127, stdout=b"", stderr=b"", seconds=0.0)
        assert process.stdout is not None
        assert process.stderr is not None
        most = 10_000_000 if output_bytes is None else output_bytes
        taps = [_Tap(process.stdout, on_stdout, most), _Tap(process.stderr, on_stderr, most)]
        pumps = [asyncio.create_task(tap.pump()) for tap in taps]
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
            await asyncio.wait(pumps, timeout=0.3)
        finally:
            for task in (*pumps, feeding):
                task.cancel()
            await asyncio.gather(*pumps, feeding, return_exceptions=True)
            process._transport.close()  # type: ignore[attr-defined]
        code = process.returncode or 0
        return ExecResult(
            exit_code=code if code >= 0 else 128 - code,
            stdout=bytes(taps[0].kept),
            stderr=bytes(taps[1].kept),
            seconds=time.monotonic() - started,
            timed_out=timed_out,
            truncated=any(tap.cut for tap in taps),
        )

    async def put(self, source: Path | bytes, target: str, *, mode: int | None = None) -> None:
        place = Path(target)
        place.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(source, bytes):
            place.write_bytes(source)
        elif source.is_dir():
            shutil.copytree(source, place, symlinks=True, dirs_exist_ok=True)
        else:
            shutil.copy2(source, place)
        if mode is not None:
            place.chmod(mode)

    async def get(self, path: str, target: Path, *, max_bytes: int = MAX_COPY_BYTES) -> None:
        if Path(path).is_dir():
            shutil.copytree(path, target, symlinks=True)
        else:
            shutil.copy2(path, target, follow_symlinks=False)

    async def stop(self) -> None:
        pass

    def _command(self, argv: Sequence[str], cwd: str) -> list[str]:
        return list(argv)

    def _place(self, cwd: str | None) -> str:
        return cwd or self.workdir


def environment_at(
    workspace: Path, variables: Mapping[str, str] | None = None, *, prefix: Sequence[str] = ()
) -> PlainEnvironment:
    """An environment around a workspace that is there."""
    scratch = workspace.with_name(f"{workspace.name}-scratch")
    return PlainEnvironment(scratch, workspace=workspace, variables=variables, prefix=prefix)


def environment_of(
    workspace: Path, files: Mapping[str, str | bytes], variables: Mapping[str, str] | None = None
) -> PlainEnvironment:
    """An environment whose workspace holds these files."""
    for name, content in files.items():
        path = workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return environment_at(workspace, variables)


class MountedEnvironment(PlainEnvironment):
    """Shows the system, what the spec mounts, and nothing else. Each command has a process namespace of its own."""

    workdir = "/workspace"

    def _place(self, cwd: str | None) -> str:
        return str(self.workspace)

    def _command(self, argv: Sequence[str], cwd: str) -> list[str]:
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


class _Tap:
    """What came out of a stream so far, up to a limit."""

    def __init__(self, stream: asyncio.StreamReader, output: OutputCallback | None, most: int) -> None:
        self.kept = bytearray()
        self.cut = False
        self._stream, self._output, self._most = stream, output, most

    async def pump(self) -> None:
        while data := await self._stream.read(65536):
            environment = self._most - len(self.kept)
            self.cut = self.cut or len(data) > environment
            self.kept += data[:environment]
            if self._output is not None:
                self._output(data)


async def _feed(process: asyncio.subprocess.Process, data: bytes) -> None:
    assert process.stdin is not None
    with suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(data)
        await process.stdin.drain()
    process.stdin.close()
