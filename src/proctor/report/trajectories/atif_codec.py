"""ATIF, the Agent Trajectory Interchange Format of the Harbor project: writing and reading.

We write version 1.7, which has lanes as embedded trajectories, and read every version up to 1.8. What ATIF has no
field for goes into its `extra` members, so that our own trajectories are read back unchanged; what we have no field
for (log probabilities, token ids, images) is dropped.
"""

import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final, Literal

import msgspec
from msgspec import field

from proctor.core.errors import InvalidData
from proctor.core.record import Record, from_json, to_json
from proctor.core.result import Tokens
from proctor.core.trajectory import Lane, Step, StepSource, ToolCall, Trajectory, sum_steps

VERSION: Final = "ATIF-v1.7"
_READABLE_VERSIONS: Final = frozenset(f"ATIF-v1.{minor}" for minor in range(9))
_PROCTOR_KEY: Final = "proctor"
_CACHE_WRITES: Final = ("cache_write_5m", "cache_write_1h")

JsonObject = dict[str, Any]


def to_atif(trajectory: Trajectory) -> bytes:
    """A trajectory in ATIF. The first lane is the root, the others are embedded in it.

    Raises:
        InvalidData: it has no steps, and ATIF requires one.
    """
    order = {id(step): index for index, step in enumerate(trajectory.steps)}
    by_lane: dict[str, list[Step]] = {lane.name: [] for lane in trajectory.lanes}
    for step in trajectory.steps:
        by_lane.setdefault(step.lane, []).append(step)
    known = {lane.name: lane for lane in trajectory.lanes}
    documents = [
        _document(trajectory, known.get(name) or Lane(name=name), steps, order)
        for name, steps in by_lane.items()
        if steps
    ]
    if not documents:
        raise InvalidData("the trajectory has no steps", where=trajectory.task_id)
    root, *others = documents
    root["extra"][_PROCTOR_KEY] |= {
        "task_id": trajectory.task_id,
        "note": trajectory.note,
        "lanes": msgspec.to_builtins(trajectory.lanes),
    }
    if others:
        root["subagent_trajectories"] = others
    return to_json(root)


def _document(trajectory: Trajectory, lane: Lane, steps: list[Step], order: Mapping[int, int]) -> JsonObject:
    totals = sum_steps(steps)
    tokens = totals.tokens
    return {
        "schema_version": VERSION,
        **_without_none(session_id=trajectory.session_id),
        "trajectory_id": lane.name,
        "agent": {
            "name": lane.agent or trajectory.agent or "unknown",
            "version": trajectory.version or "unknown",
            **_without_none(model_name=trajectory.model),
        },
        "steps": [_step(step, number, order[id(step)]) for number, step in enumerate(steps, start=1)],
        "final_metrics": {
            "total_prompt_tokens": tokens.total - tokens.output,
            "total_completion_tokens": tokens.output,
            "total_cached_tokens": tokens.cache_read,
            **_without_none(total_cost_usd=totals.cost_usd),
            "total_steps": len(steps),
        },
        "extra": {_PROCTOR_KEY: {"agent": trajectory.agent, "version": trajectory.version}},
    }


def _step(step: Step, number: int, order: int) -> JsonObject:
    document: JsonObject = {"step_id": number, "source": step.source, "message": step.text}
    own: JsonObject = {"order": order, **_without_none(seconds=step.seconds)}
    own |= {name: getattr(step, name) for name in ("kind", "note") if getattr(step, name) not in {"message", ""}}
    if step.at is not None:
        (document if _is_time(step.at) else own)["timestamp"] = step.at
    results: list[JsonObject] = [
        {
            "source_call_id": call.id,
            "content": call.output,
            **({"extra": {"failed": True}} if call.failed else {}),
        }
        for call in step.calls
        if call.output is not None
    ]
    if step.observation:
        results.append({"content": step.observation})
    if step.source == "agent":
        document |= _without_none(model_name=step.model, reasoning_content=step.thinking or None)
        document["metrics"] = _metrics(step)
        if step.calls:
            document["tool_calls"] = [
                {"tool_call_id": call.id, "function_name": call.name, "arguments": call.arguments}
                for call in step.calls
            ]
    else:
        own |= _fields_without_place(step)
        results = [result for result in results if "source_call_id" not in result]
    if results:
        document["observation"] = {"results": results}
    document["extra"] = {_PROCTOR_KEY: own}
    return document


def _fields_without_place(step: Step) -> JsonObject:
    """The fields that ATIF has for an agent's step only, of a step of another source that was paid for."""
    plain = Step(source=step.source)
    names = ("model", "thinking", "tokens", "cost_usd", "calls")
    return {
        name: msgspec.to_builtins(getattr(step, name)) for name in names if getattr(step, name) != getattr(plain, name)
    }


def _metrics(step: Step) -> JsonObject:
    tokens = step.tokens
    writes = {name: getattr(tokens, name) for name in _CACHE_WRITES if getattr(tokens, name)}
    return {
        "prompt_tokens": tokens.total - tokens.output,
        "completion_tokens": tokens.output,
        "cached_tokens": tokens.cache_read,
        **_without_none(cost_usd=step.cost_usd),
        **({"extra": writes} if writes else {}),
    }


class _AtifAgent(Record):
    name: str
    version: str
    model_name: str | None = None


class _AtifToolCall(Record):
    tool_call_id: str
    function_name: str
    arguments: dict[str, Any]


class _AtifContentPart(Record):
    type: str
    text: str | None = None


class _AtifResult(Record):
    source_call_id: str | None = None
    content: str | list[_AtifContentPart] | None = None
    extra: dict[str, Any] | None = None


class _AtifObservation(Record):
    results: list[_AtifResult]


class _AtifMetrics(Record):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None
    extra: dict[str, Any] | None = None


class _AtifStep(Record):
    step_id: int
    source: StepSource
    message: str | list[_AtifContentPart] = ""
    timestamp: str | None = None
    model_name: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[_AtifToolCall] | None = None
    observation: _AtifObservation | None = None
    metrics: _AtifMetrics | None = None
    is_copied_context: bool | None = None
    extra: dict[str, Any] | None = None


class _AtifTrajectory(Record):
    schema_version: str
    agent: _AtifAgent
    steps: list[_AtifStep]
    session_id: str | None = None
    trajectory_id: str | None = None
    extra: dict[str, Any] | None = None
    subagent_trajectories: list["_AtifTrajectory"] | None = None
    notes: str | None = None


class _AtifExtra(Record):
    """What we write into the `extra` of a root."""

    agent: str | None = None
    version: str | None = None
    task_id: str | None = None
    note: str = ""
    lanes: tuple[Lane, ...] = ()


class _AtifStepExtra(Record):
    """The same for a step."""

    order: int | None = None
    timestamp: str | None = None
    seconds: float | None = None
    kind: Literal["message", "compaction", "error", "trouble"] = "message"
    note: str = ""
    model: str | None = None
    thinking: str = ""
    tokens: Tokens = field(default_factory=Tokens)
    cost_usd: float | None = 0.0
    calls: tuple[ToolCall, ...] = ()


def from_atif(data: bytes, *, task_id: str = "", where: object = None) -> Trajectory:
    """Read a trajectory.

    Raises:
        InvalidData: it is not ATIF, or breaks its rules; says where.
    """
    root = from_json(data, _AtifTrajectory, where=where)
    own = _read_extra(root.extra, _AtifExtra, where)
    numbered: list[tuple[tuple[float, str], Step]] = []
    lanes = list(own.lanes)
    for name, document, embedded in _documents(root):
        _check(document, where, name)
        if all(lane.name != name for lane in lanes):
            agent = document.agent.name if embedded else ""
            lanes.append(Lane(name=name, agent=agent, kind="subagent" if embedded else "main"))
        for theirs in document.steps:
            extra = _read_extra(theirs.extra, _AtifStepExtra, where)
            key = (math.inf if extra.order is None else float(extra.order), theirs.timestamp or "")
            numbered.append((key, _read_step(theirs, name, document.agent.model_name, extra, where)))
    ordered = sorted(numbered, key=lambda pair: pair[0]) if _sortable(numbered) else numbered
    return Trajectory(
        task_id=own.task_id or task_id,
        agent=own.agent if own.agent is not None else root.agent.name,
        version=own.version if own.version is not None else root.agent.version,
        model=root.agent.model_name,
        session_id=root.session_id,
        lanes=tuple(lanes),
        steps=tuple(step for _, step in ordered),
        note=own.note,
    )


def _documents(root: _AtifTrajectory) -> Iterable[tuple[str, _AtifTrajectory, bool]]:
    """Every trajectory in it, with the name of its lane; embedded ones may contain others."""
    yield root.trajectory_id or "main", root, False
    waiting = list(root.subagent_trajectories or ())
    seen = {root.trajectory_id or "main"}
    while waiting:
        document = waiting.pop(0)
        name = document.trajectory_id or f"subagent-{len(seen)}"
        while name in seen:
            name += "'"
        seen.add(name)
        yield name, document, True
        waiting.extend(document.subagent_trajectories or ())


def _sortable(numbered: list[tuple[tuple[float, str], Step]]) -> bool:
    """Whether every step has a time or a number; otherwise their order in the file is used."""
    return all(order != math.inf or at for (order, at), _ in numbered)


def _check(document: _AtifTrajectory, where: object, name: str) -> None:
    if document.schema_version not in _READABLE_VERSIONS:
        raise InvalidData(f"{document.schema_version!r} is not a known version of ATIF", where=where)
    if not document.steps:
        raise InvalidData(f"trajectory {name!r} has no steps", where=where)
    for number, step in enumerate(document.steps, start=1):
        position = f"step {number} of trajectory {name!r}"
        if step.step_id != number:
            raise InvalidData(f"{position} has the id {step.step_id}", where=where)
        calls = {call.tool_call_id for call in step.tool_calls or ()}
        if calls and step.source != "agent":
            raise InvalidData(f"{position} calls tools, and is not the agent's", where=where)
        named = [result.source_call_id for result in step.observation.results] if step.observation else []
        unknown = [call for call in named if call is not None and call not in calls]
        if unknown:
            raise InvalidData(f"{position} has a result of a call that it did not make: {unknown[0]!r}", where=where)


def _read_step(step: _AtifStep, lane: str, model: str | None, extra: _AtifStepExtra, where: object) -> Step:
    results = step.observation.results if step.observation else []
    given = step.tool_calls or []
    unnamed = extra.order is None and len(results) == len(given)
    if unnamed and all(result.source_call_id is None for result in results):
        # Some tools list results in the order of the calls, without ids.
        pairs = zip(results, given, strict=True)
        results = [msgspec.structs.replace(result, source_call_id=call.tool_call_id) for result, call in pairs]
    outputs = {result.source_call_id: result for result in results if result.source_call_id is not None}
    calls = tuple(_read_call(call, outputs.get(call.tool_call_id)) for call in given)
    agent = step.source == "agent"
    metrics = step.metrics or _AtifMetrics()
    tokens = _read_tokens(metrics, where) if agent else extra.tokens
    return Step(
        source=step.source,
        lane=lane,
        at=step.timestamp or extra.timestamp,
        seconds=extra.seconds,
        kind="error" if extra.kind == "trouble" else extra.kind,  # files of version 1
        text=_content_text(step.message),
        thinking=(step.reasoning_content or "") if agent else extra.thinking,
        calls=calls or extra.calls,
        observation="\n".join(_content_text(result.content) for result in results if result.source_call_id is None),
        model=(step.model_name or (None if extra.order is not None else model)) if agent else extra.model,
        tokens=tokens,
        cost_usd=metrics.cost_usd if agent else extra.cost_usd,
        note=extra.note or ("copied from an earlier trajectory" if step.is_copied_context else ""),
    )


def _read_call(call: _AtifToolCall, result: _AtifResult | None) -> ToolCall:
    output = None if result is None or result.content is None else _content_text(result.content)
    failed = result is not None and (result.extra or {}).get("failed") is True
    return ToolCall(
        id=call.tool_call_id, name=call.function_name, arguments=call.arguments, output=output, failed=failed
    )


def _read_tokens(metrics: _AtifMetrics, where: object) -> Tokens:
    prompt, cached = metrics.prompt_tokens or 0, metrics.cached_tokens or 0
    extra = metrics.extra or {}
    write_5m, write_1h = (extra[name] if isinstance(extra.get(name), int) else 0 for name in _CACHE_WRITES)
    if min(prompt, cached, metrics.completion_tokens or 0, write_5m, write_1h) < 0:
        raise InvalidData("a count of tokens is below zero", where=where)
    return Tokens(
        # Some programs count cached tokens separately; then nothing is subtracted.
        input=max(0, prompt - cached - write_5m - write_1h) if cached <= prompt else prompt,
        output=metrics.completion_tokens or 0,
        cache_read=cached,
        cache_write_5m=write_5m,
        cache_write_1h=write_1h,
    )


def _content_text(content: str | list[_AtifContentPart] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(f"[{part.type}]" if part.text is None else part.text for part in content)


def _read_extra(extra: dict[str, Any] | None, kind: type[Any], where: object) -> Any:
    """What we wrote there, if anything."""
    found = (extra or {}).get(_PROCTOR_KEY)
    if not isinstance(found, dict):
        return kind()
    try:
        return msgspec.convert(found, kind)
    except msgspec.ValidationError as error:
        raise InvalidData(f"the part that Proctor wrote was changed: {error}", where=where) from error


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _without_none(**fields: Any) -> JsonObject:
    return {name: value for name, value in fields.items() if value is not None}
