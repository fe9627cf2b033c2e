"""An environment whose output is redacted: what an agent prints holds no secret when it is stored.

With a key that only the gateway holds there is nothing to find. But an agent that uses a login of its own holds that
login, and one in an environment without isolation can read our own variables.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from proctor.core.environment import (
    MAX_COPY_BYTES,
    AgentUser,
    Checkpoint,
    Environment,
    ExecResult,
    Network,
    OutputCallback,
)
from proctor.core.verdict import Finding
from proctor.gateway import Redactor

# What has no line end waits for one up to here; then all is written but a tail in which a secret may have started.
_MAX_BUFFERED: Final = 1 << 20
_KEPT_TAIL: Final = 1 << 12


class RedactingWriter:
    """Passes bytes on, line by line, without secrets."""

    def __init__(self, redactor: Redactor, output: OutputCallback) -> None:
        self._redactor = redactor
        self._output = output
        self._buffer = bytearray()

    def write(self, data: bytes) -> None:
        """Buffer the data; whole lines are passed on."""
        end = data.rfind(b"\n") + 1
        self._buffer += data
        if end:
            self._emit(len(self._buffer) - (len(data) - end))
        elif len(self._buffer) > _MAX_BUFFERED:
            self._emit(len(self._buffer) - _KEPT_TAIL)

    def flush(self) -> None:
        """Pass on what is left."""
        if self._buffer:
            self._emit(len(self._buffer))

    def _emit(self, size: int) -> None:
        clean = self._redactor.redact_bytes(bytes(self._buffer[:size]))
        del self._buffer[:size]
        self._output(clean)


class RedactedEnvironment(Environment):
    """An environment around another: all that its commands print while they run is redacted.

    Commands run as `user`, where there is one, with a home of its own.
    """

    def __init__(self, environment: Environment, redactor: Redactor, user: AgentUser | None = None) -> None:
        self._environment = environment
        self._redactor = redactor
        self._user = user

    @property
    def workdir(self) -> str:
        """Where the workspace is inside."""
        return self._environment.workdir

    @property
    def digest(self) -> str:
        """Identifies what the environment was made from."""
        return self._environment.digest

    @property
    def model_url(self) -> str | None:
        """The URL of the gateway inside."""
        return self._environment.model_url

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
        """Run one command to its end."""
        own = self._user
        if own is not None and user is None:
            user, variables = own.name, {**own.variables, **(variables or {})}
        out, err = (
            None if output is None else RedactingWriter(self._redactor, output) for output in (on_stdout, on_stderr)
        )
        try:
            return await self._environment.exec(
                argv,
                stdin=stdin,
                variables=variables,
                cwd=cwd,
                timeout=timeout,
                on_stdout=None if out is None else out.write,
                on_stderr=None if err is None else err.write,
                output_bytes=output_bytes,
                user=user,
            )
        finally:
            for cleaner in (out, err):
                if cleaner is not None:
                    cleaner.flush()

    async def put(self, source: Path | bytes, target: str, *, mode: int | None = None) -> None:
        """Copy something in."""
        await self._environment.put(source, target, mode=mode)

    async def get(self, path: str, target: Path, *, max_bytes: int = MAX_COPY_BYTES) -> None:
        """Copy something out."""
        await self._environment.get(path, target, max_bytes=max_bytes)

    async def real_path(self, path: str) -> str:
        """As of the environment itself."""
        return await self._environment.real_path(path)

    async def checkpoint(self) -> Checkpoint | None:
        """As of the environment itself."""
        return await self._environment.checkpoint()

    @property
    def default_user(self) -> str:
        """As of the environment itself."""
        return self._environment.default_user

    @property
    def refused_hosts(self) -> tuple[str, ...]:
        """As of the environment itself."""
        return self._environment.refused_hosts

    async def set_network(self, network: Network, allowed_hosts: Sequence[str] = ()) -> None:
        """As of the environment itself."""
        await self._environment.set_network(network, allowed_hosts)

    def start_commands_with(self, shell: str) -> None:
        """As of the environment itself."""
        self._environment.start_commands_with(shell)

    def service(self, name: str) -> Environment:
        """As of the environment itself."""
        return self._environment.service(name)

    async def stop(self) -> None:
        """Stop the environment."""
        await self._environment.stop()


def redact_submission(
    content: bytes, secrets: Sequence[str], file: str, *, same_size: bool = False
) -> tuple[bytes, tuple[Finding, ...]]:
    """A submission that may be stored. It is evidence: only our own secrets are removed, and a finding says so.

    With `same_size`, for an archive, in which sizes are written, what takes a secret's place is as long.
    """
    clean = content
    for secret in sorted(secrets, key=len, reverse=True):
        found, mark = secret.encode(), b"[redacted]"
        clean = clean.replace(found, mark.ljust(len(found), b"*")[: len(found)] if same_size else mark)
    if clean == content:
        return content, ()
    detail = "it held a key or a login of this run, which was removed before it was stored and graded"
    return clean, (Finding(code="secret_in_submission", path=file, detail=detail),)
