"""A run as tables for data frames: a row per trial, test or model call. polars and pandas are imported here only.

Rows are records, so that every table has all its columns with their types, also where it has no row.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import count, product, takewhile
from pathlib import Path
from types import UnionType
from typing import Any, Final, Literal, get_args, get_origin

import msgspec

from proctor.core.causes import CONSEQUENCES, Status
from proctor.core.errors import UsageError
from proctor.core.record import Record
from proctor.core.result import TaskResult, Tokens, usage_cost
from proctor.core.run import RunConfig
from proctor.core.suggestions import suggest
from proctor.results.attempt_record import RECORDING_FILE
from proctor.results.store import RunStore

FrameKind = Literal["trials", "tests", "model_calls"]
FrameLibrary = Literal["polars", "pandas"]


class RunColumns(Record):
    """What every row has: which run it is of, and which trial."""

    benchmark: str
    run: str
    name: str | None
    agent: str
    model: str | None
    task: str
    trial: int


class TrialFrameRow(RunColumns):
    """One trial. `counted`: it is in the denominator of the rate."""

    status: str
    cause: str
    resolved: bool
    counted: bool
    score: float | None
    reason: str
    cost_usd: float | None
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    agent_seconds: float
    grade_seconds: float
    attempts: int
    turns: int
    steps: int
    agents: int
    started_at: str | None
    findings: int


class TestFrameRow(RunColumns):
    """One test of one trial, before and after the submission."""

    test: str
    before: str | None
    after: str | None
    resolved: bool


class ModelCallFrameRow(RunColumns):
    """One request to the model, of any attempt at a trial. `status` is None when there was no response."""

    attempt: int
    number: int
    requesting_agent: str
    role: str
    at: str
    called_model: str
    status: int | None
    seconds: float
    cost_usd: float | None
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    replayed: bool


class _CallRequest(Record):
    model: str = ""


class _CallResponse(Record):
    status: int | None = None
    ms: int = 0


class _CallUsage(Record):
    model: str = ""
    tokens: Tokens = Tokens()


class _CallLine(Record):
    """As much of a line of a recording as a row needs; the rest is not decoded."""

    kind: str = ""
    number: int = 0
    role: str = ""
    agent: str = ""
    at: str = ""
    request: _CallRequest = _CallRequest()
    response: _CallResponse = _CallResponse()
    usage: tuple[_CallUsage, ...] = ()
    cost_usd: float | None = None
    paid: bool = False


_DECODE_LINE: Final = msgspec.json.Decoder(_CallLine).decode


def frame_rows(store: RunStore, kind: FrameKind) -> Iterator[Record]:
    """The rows of a run, read one result at a time. Requests of trials without a result are there too: they cost money.

    Raises:
        UsageError: there is no such kind of rows.
    """
    make = _TABLES[checked_kind(kind)][1]
    config = store.config()
    finished = set()
    for result in store.results():
        finished.add((result.task_id, result.trial))
        yield from make(store, _run_columns(store, config, result.task_id, result.trial), result)
    if kind == "model_calls":
        for task_id, trial in product(config.tasks, range(1, config.trials + 1)):
            if (task_id, trial) not in finished:
                logs = map(partial(store.logs, task_id, trial), count(1))
                attempts = [number for number, _ in enumerate(takewhile(Path.is_dir, logs), start=1)]
                yield from _attempt_calls(store, _run_columns(store, config, task_id, trial), attempts)


def row_type(kind: FrameKind) -> type[Record]:
    """The record that the rows of a table are."""
    return _TABLES[checked_kind(kind)][0]


def checked_kind(kind: str) -> FrameKind:
    """The same, once it is known.

    Raises:
        UsageError: there is no such kind of rows.
    """
    if kind not in _TABLES:
        raise UsageError(
            f"there are no rows {kind!r}", fix=suggest(kind, _TABLES, f"choose one of {', '.join(_TABLES)}")
        )
    return kind  # type: ignore[return-value]  # just looked up


def make_frame(stores: Sequence[RunStore], kind: FrameKind = "trials", library: FrameLibrary = "polars") -> Any:
    """A data frame of runs.

    Raises:
        UsageError: the library is not installed, or there is no such kind of rows.
    """
    rows = [row for store in stores for row in frame_rows(store, kind)]
    fields = [field.name for field in msgspec.structs.fields(row_type(kind))]
    columns = {name: [getattr(row, name) for row in rows] for name in fields}
    if library == "polars":
        polars = _import("polars")
        types = {str: polars.String, int: polars.Int64, float: polars.Float64, bool: polars.Boolean}
        return polars.DataFrame(columns, schema={name: types[kind] for name, kind in _types(row_type(kind)).items()})
    if library == "pandas":
        pandas = _import("pandas")
        names = {str: "string", int: "Int64", float: "Float64", bool: "boolean"}
        kinds = _types(row_type(kind))
        return pandas.DataFrame({name: pandas.array(columns[name], dtype=names[kinds[name]]) for name in fields})
    raise UsageError(f"data frames are made with polars or pandas, not {library!r}", fix='give library="polars"')


def _import(library: str) -> Any:
    import importlib

    try:
        return importlib.import_module(library)
    except ImportError as error:
        extra = "proctor[frames]" if library == "polars" else library
        raise UsageError(f"{library} is not installed", fix=f"pip install '{extra}'") from error


def _types(record: type[Record]) -> dict[str, type]:
    """The plain type of each column."""
    found = {}
    for field in msgspec.structs.fields(record):
        options = get_args(field.type) if get_origin(field.type) is UnionType else (field.type,)
        found[field.name] = next(one for one in options if one is not type(None))
    return found


def _run_columns(store: RunStore, config: RunConfig, task_id: str, trial: int) -> dict[str, Any]:
    return {
        "benchmark": config.benchmark,
        "run": store.run_id,
        "name": config.name or config.label,
        "agent": config.agent,
        "model": config.model,
        "task": task_id,
        "trial": trial,
    }


def _trial_rows(_: RunStore, shared: dict[str, Any], result: TaskResult) -> Iterator[Record]:
    verdict = result.verdict
    yield TrialFrameRow(
        **shared,
        status=result.status.value,
        cause=result.cause.value,
        resolved=result.status is Status.RESOLVED,
        counted=CONSEQUENCES[result.cause].counted,
        score=verdict.score if verdict else None,
        reason=result.reason,
        cost_usd=usage_cost(result.usage),
        **_token_columns(usage.tokens for usage in result.usage),
        agent_seconds=result.agent_seconds,
        grade_seconds=result.grade_seconds,
        attempts=len(result.attempts),
        turns=result.metrics.turns,
        steps=result.metrics.steps,
        agents=result.metrics.agents,
        started_at=result.attempts[0].started_at if result.attempts else None,
        findings=len(verdict.findings) if verdict else 0,
    )


def _test_rows(_: RunStore, shared: dict[str, Any], result: TaskResult) -> Iterator[Record]:
    for test in result.verdict.tests if result.verdict else ():
        yield TestFrameRow(
            **shared,
            test=test.id,
            before=test.before.value if test.before else None,
            after=test.after.value if test.after else None,
            resolved=result.status is Status.RESOLVED,
        )


def _call_rows(store: RunStore, shared: dict[str, Any], result: TaskResult) -> Iterator[Record]:
    return _attempt_calls(store, shared, (attempt.number for attempt in result.attempts))


def _attempt_calls(store: RunStore, shared: dict[str, Any], attempts: Iterable[int]) -> Iterator[Record]:
    for attempt in attempts:
        file = store.logs(shared["task"], shared["trial"], attempt) / RECORDING_FILE
        for line in _exchanges(file):
            yield ModelCallFrameRow(
                **shared,
                attempt=attempt,
                number=line.number,
                requesting_agent=line.agent,
                role=line.role,
                at=line.at,
                called_model=line.usage[0].model if line.usage else line.request.model,
                status=line.response.status,
                seconds=line.response.ms / 1000,
                cost_usd=line.cost_usd,
                **_token_columns(usage.tokens for usage in line.usage),
                replayed=line.paid,
            )


def _exchanges(file: Path) -> Iterator[_CallLine]:
    """The exchanges of a recording. What was killed while it was written has an unfinished last line."""
    try:
        opened = file.open("rb")
    except OSError:
        return
    with opened:
        for line in opened:
            try:
                read = _DECODE_LINE(line)
            except msgspec.DecodeError:
                continue
            if read.kind == "exchange":
                yield read


def _token_columns(tokens: Iterable[Tokens]) -> dict[str, Any]:
    total = sum(tokens, start=Tokens())
    return {
        "input_tokens": total.input,
        "output_tokens": total.output,
        "cache_read_tokens": total.cache_read,
        "cache_write_tokens": total.cache_write_5m + total.cache_write_1h,
    }


_MakeRows = Callable[[RunStore, dict[str, Any], TaskResult], Iterator[Record]]
_TABLES: Final[dict[str, tuple[type[Record], _MakeRows]]] = {
    "trials": (TrialFrameRow, _trial_rows),
    "tests": (TestFrameRow, _test_rows),
    "model_calls": (ModelCallFrameRow, _call_rows),
}
