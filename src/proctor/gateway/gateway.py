"""The gateway: the only way to the model. The runner opens a session for each attempt."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from proctor.core.errors import InfrastructureError
from proctor.gateway.app import GatewayApp
from proctor.gateway.backend import Backend, GatewaySessionSpec, RecordingGate
from proctor.gateway.budget import RunBudget
from proctor.gateway.http import HttpServer
from proctor.gateway.prices import Prices
from proctor.gateway.recorder import Clock, utc_now
from proctor.gateway.redact import Redactor
from proctor.gateway.resumed_recording import resumed_responder
from proctor.gateway.session import GatewayEventCallback, GatewaySession
from proctor.gateway.sync_queue import SyncQueue

# Connections that may wait to be accepted: all agents of a run may connect at the same time.
_BACKLOG: Final = 1024
_MAX_BODY_BYTES: Final = 64 * 1024 * 1024


class Gateway:
    """Serves agents on any number of addresses, from one backend, within one run's budget.

    Args:
        backend: what responds.
        prices: what tokens cost; the built-in table by default.
        budget: what may be spent; no limit by default.
        allow_unpriced: allow models without a price even under a budget; their cost is not counted in it.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        prices: Prices | None = None,
        budget: RunBudget | None = None,
        allow_unpriced: bool = False,
        clock: Clock = utc_now,
    ) -> None:
        self.budget = budget or RunBudget()
        self.prices = prices or Prices.load()
        self._backend = backend
        self._allow_unpriced = allow_unpriced
        self._clock = clock
        self._sessions: dict[str, GatewaySession] = {}
        self._closed: set[str] = set()
        self._syncs = SyncQueue()
        app = GatewayApp(
            self._sessions, self._closed, passes_login=backend.passes_login, max_body_bytes=_MAX_BODY_BYTES
        )
        self._server = HttpServer(app.handle, max_body_bytes=_MAX_BODY_BYTES)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.gather(*(self._close(session) for session in list(self._sessions.values())))
        await self._server.close()
        await self._backend.close()
        await self._syncs.close()

    async def listen(self, host: str = "127.0.0.1", port: int = 0) -> str:
        """Listen on an address of this machine; returns the URL to which a session's path is added.

        Raises:
            InfrastructureError: the address cannot be bound.
        """
        try:
            port = await self._server.listen(host, port, backlog=_BACKLOG)
        except OSError as error:
            raise InfrastructureError(f"the gateway cannot listen on {host}:{port}: {error.strerror}") from error
        shown = f"[{host}]" if ":" in host else host
        return f"http://{shown}:{port}"

    async def listen_unix(self, path: Path) -> Path:
        """Listen on a unix socket that only this user can open.

        Raises:
            InfrastructureError: the socket cannot be created.
        """
        try:
            path.unlink(missing_ok=True)  # noqa: ASYNC240 - one system call on a local file system
            await self._server.listen_unix(str(path), backlog=_BACKLOG)
            path.chmod(0o600)  # noqa: ASYNC240 - likewise
        except OSError as error:
            raise InfrastructureError(
                f"the gateway cannot listen on the socket: {error.strerror or error}",
                where=path,
                fix="a socket's path may have 100 characters at most",
            ) from error
        return path

    @asynccontextmanager
    async def session(
        self,
        spec: GatewaySessionSpec,
        *,
        on_event: GatewayEventCallback | None = None,
        gate: RecordingGate | None = None,
    ) -> AsyncIterator[GatewaySession]:
        """Open a session for one attempt; it is closed at the end of the block.

        Waits until the attempt's cap fits into what the run has left. With a `gate`, the recording is copied there,
        and no request is sent before the copy has its mark.

        Raises:
            LimitReached: it never will.
            InvalidData: the recording to be replayed is missing or broken.
        """
        responder = self._backend.responder(spec)
        redactor = Redactor(self._backend.secrets)
        if spec.earlier_recordings:
            responder = await asyncio.to_thread(
                resumed_responder, spec.earlier_recordings, responder, values=spec.values, redactor=redactor
            )
        reservation = await self.budget.reserve(spec.cap_usd, spent_usd=spec.spent_usd)
        try:
            session = GatewaySession(
                spec,
                backend=self._backend.name,
                responder=responder,
                reservation=reservation,
                prices=self.prices,
                redactor=redactor,
                syncs=self._syncs,
                allow_unpriced=self._allow_unpriced,
                on_event=on_event,
                gate=gate,
                clock=self._clock,
            )
        except BaseException:
            reservation.release()
            raise
        self._sessions[session.token] = session
        try:
            yield session
        finally:
            await self._close(session)

    async def _close(self, session: GatewaySession) -> None:
        try:
            await session.close()
        finally:
            # The token is kept, so that later requests get a final error.
            self._closed.add(session.token)
            self._sessions.pop(session.token, None)
