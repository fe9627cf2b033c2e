"""What is called when a session ends: a command, which reads a JSON document, or a web hook, which is sent it."""

import asyncio
import os
import shlex
import shutil
import signal
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Final, Literal, Self
from urllib.parse import urlsplit

from proctor.core.causes import Cause
from proctor.core.errors import InvalidData, ProctorError, UsageError
from proctor.core.formatting import money, plural, truncate_line
from proctor.core.record import Record, read_record, to_json
from proctor.core.run import RunSummary
from proctor.results import RunStore, SweepStore
from proctor.results.run_names import run_heading, run_title
from proctor.results.store import SUMMARY_FILE
from proctor.runner.state import Session

NOTIFY_SECONDS: Final = 30.0
_MAX_ERRORS: Final = 10_000
NotifiedState = Literal["finished", "stopped", "interrupted", "failed"]


class NotifiedRun(Record):
    """A run of the session, as its summary has it; `trials_left` have no result yet."""

    run: str
    name: str
    folder: str
    trials_left: int
    summary: RunSummary | None


class Notification(Record):
    """What `--notify` passes on when a session ends.

    Attributes:
        state: `finished`: every trial has a result; `stopped`: some have none; `interrupted`: by the user; `failed`:
            by an error.
        sweep: the sweep that was worked on; None for a run.
        stopped_by: the cause that stopped the session before its end, where one did.
        detail: why it stopped, in words.
        text: all of it in one sentence, under the key that chat services show.
    """

    state: NotifiedState
    text: str
    runs: tuple[NotifiedRun, ...]
    sweep: str | None = None
    stopped_by: Cause | None = None
    detail: str = ""
    schema_version: Literal["proctor.notification@1"] = "proctor.notification@1"


def check_targets(targets: Sequence[str]) -> None:
    """See that each can be called, before anything is spent.

    Raises:
        UsageError: one is neither an address nor a command.
    """
    for target in targets:
        if _is_url(target):
            if not _host(target):
                raise UsageError("--notify: the address has no host", fix="give one such as https://HOST/PATH")
            continue
        try:
            words = shlex.split(target)
        except ValueError as error:
            raise UsageError(f"--notify {target}: cannot be read as a shell would: {error}") from error
        if not words:
            raise UsageError("--notify is empty", fix="give a command, or an address that begins with https://")
        if shutil.which(words[0]) is None:
            raise UsageError(
                f"--notify: there is no program {words[0]!r}",
                fix="give a program on PATH, or its path; what a shell understands is called with sh -c '…'",
            )


class Notifier:
    """Calls all targets when the block ends, however it does. Nothing that goes wrong with one changes anything else.

    Attributes:
        stores: the runs, once they have folders; before that, nobody is notified.
    """

    def __init__(self, targets: Sequence[str], session: Session) -> None:
        self._targets = targets
        self._session = session
        self.stores: Sequence[RunStore] = ()
        self.sweep: SweepStore | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._targets or not self.stores:
            return
        document = to_json(self._notification(error))
        for target in self._targets:
            try:
                async with asyncio.timeout(NOTIFY_SECONDS):
                    await (_post(target, document) if _is_url(target) else _call(target, document))
            except TimeoutError:
                self._session.log(f"--notify {_shown(target)} failed: it has not ended within {NOTIFY_SECONDS:g} s")
            except Exception as failure:  # noqa: BLE001 - whatever it is: the run is what it is
                reason = str(failure).replace(target, _shown(target)) or type(failure).__name__
                self._session.log(f"--notify {_shown(target)} failed: {truncate_line(reason, 300)}")

    def _notification(self, error: BaseException | None) -> Notification:
        runs = tuple(_describe(store) for store in self.stores)
        state: NotifiedState = "stopped" if any(run.trials_left for run in runs) else "finished"
        detail = self._session.detail
        if error is not None:
            state = "interrupted" if isinstance(error, asyncio.CancelledError | KeyboardInterrupt) else "failed"
            detail = error.sentence if isinstance(error, ProctorError) else detail or type(error).__name__
        return Notification(
            state=state,
            text=_sentence(state, runs, detail),
            runs=runs,
            sweep=self.sweep.name if self.sweep is not None else None,
            stopped_by=self._session.stopped_by,
            detail=detail,
        )


def _describe(store: RunStore) -> NotifiedRun:
    config = store.config()
    try:
        summary = read_record(store.folder / SUMMARY_FILE, RunSummary)
    except InvalidData:
        summary = None
    return NotifiedRun(
        run=store.name,
        name=run_heading(store).given_name,
        folder=str(store.folder),
        trials_left=len(config.tasks) * config.trials - (summary.tasks if summary else 0),
        summary=summary,
    )


def _sentence(state: NotifiedState, runs: Sequence[NotifiedRun], detail: str) -> str:
    """What became of the runs, for people."""
    parts = []
    for one in runs:
        title = run_title(one.run, one.name)
        if one.summary is None:
            parts.append(f"{title}: no result yet")
            continue
        counted = one.summary.resolved + one.summary.unresolved
        left = f", {plural(one.trials_left, 'trial')} left" if one.trials_left else ""
        parts.append(
            f"{title}: {one.summary.resolved} of {counted} resolved, {plural(one.summary.errors, 'error')}"
            f"{left}, {money(one.summary.cost_usd)}"
        )
    reason = f" ({truncate_line(detail, 300)})" if detail else ""
    return f"{state}{reason}: {'; '.join(parts)}"


def _is_url(target: str) -> bool:
    return target.startswith(("http://", "https://"))


def _host(url: str) -> str:
    """The host and port of an address; empty where it has none."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return ""
    return f"{parts.hostname}{port}" if parts.hostname else ""


def _shown(target: str) -> str:
    """A target in a message: the address of a web hook is a secret, and so may be the arguments of a command."""
    return f"{target.partition(':')[0]}://{_host(target)}" if _is_url(target) else shlex.split(target)[0]


async def _call(command: str, document: bytes) -> None:
    """Run a command with the document as its input. Where it takes too long, what it has started ends with it."""
    with tempfile.TemporaryFile() as errors:  # not a pipe: what goes on in the background would keep that open
        process = await asyncio.create_subprocess_exec(
            *shlex.split(command),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=errors,
            env=dict(os.environ),
            start_new_session=True,  # Ctrl-C on the terminal is for us
        )
        try:
            await process.communicate(document)
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        if process.returncode:
            errors.seek(0)
            said = errors.read(_MAX_ERRORS).decode(errors="replace")
            raise OSError(f"exit code {process.returncode}: {said}")


async def _post(url: str, document: bytes) -> None:
    from aiohttp import ClientSession

    async with (
        ClientSession(trust_env=True) as client,
        client.post(url, data=document, headers={"Content-Type": "application/json"}) as response,
    ):
        if response.status >= 400:  # noqa: PLR2004 - as HTTP has it
            raise OSError(f"HTTP status {response.status}")
