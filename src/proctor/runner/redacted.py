"""A room whose commands are heard without secrets: what an agent prints is clean before anybody keeps it.

With a key that only the gateway holds there is nothing to find. But an agent that uses a login of its own holds that
login, and one in a room without walls can read our own environment.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from proctor.core.environment import COPY_BYTES, Environment, ExecResult, Output
from proctor.gateway import Redactor

# What has no line end waits for one up to here; then all goes but a tail in which a secret may have begun.
_LONGEST: Final = 1 << 20
_TAIL: Final = 1 << 12


class Cleaner:
    """Passes bytes on line by line, without secrets."""

    def __init__(self, redactor: Redactor, output: Output) -> None:
        self._redactor = redactor
        self._output = output
        self._held = bytearray()

    def feed(self, data: bytes) -> None:
        """Take what came; what ends a line goes on."""
        end = data.rfind(b"\n") + 1
        self._held += data
        if end:
            self._pass(len(self._held) - (len(data) - end))
        elif len(self._held) > _LONGEST:
            self._pass(len(self._held) - _TAIL)

    def end(self) -> None:
        """Pass on what is left."""
        if self._held:
            self._pass(len(self._held))

    def _pass(self, size: int) -> None:
        clean = self._redactor.data(bytes(self._held[:size]))
        del self._held[:size]
        self._output(clean)


class RedactedRoom:
    """Implements `Environment` around another: all that its commands print while they run is redacted."""

    def __init__(self, room: Environment, redactor: Redactor) -> None:
        self._room = room
        self._redactor = redactor

    @property
    def workdir(self) -> str:
        """Where the workspace is inside."""
        return self._room.workdir

    @property
    def digest(self) -> str:
        """Identifies what the room was made from."""
        return self._room.digest

    @property
    def model_url(self) -> str | None:
        """Where the gateway answers inside."""
        return self._room.model_url

    async def exec(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        variables: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - see the protocol
        on_stdout: Output | None = None,
        on_stderr: Output | None = None,
        output_bytes: int | None = None,
    ) -> ExecResult:
        """Run one command to its end."""
        out, err = (None if output is None else Cleaner(self._redactor, output) for output in (on_stdout, on_stderr))
        try:
            return await self._room.exec(
                argv,
                stdin=stdin,
                variables=variables,
                cwd=cwd,
                timeout=timeout,
                on_stdout=None if out is None else out.feed,
                on_stderr=None if err is None else err.feed,
                output_bytes=output_bytes,
            )
        finally:
            for cleaner in (out, err):
                if cleaner is not None:
                    cleaner.end()

    async def put(self, source: Path | bytes, target: str, *, mode: int | None = None) -> None:
        """Copy something in."""
        await self._room.put(source, target, mode=mode)

    async def get(self, path: str, target: Path, *, max_bytes: int = COPY_BYTES) -> None:
        """Copy something out."""
        await self._room.get(path, target, max_bytes=max_bytes)

    async def stop(self) -> None:
        """End the room."""
        await self._room.stop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
