"""The differences between the configurations of two runs. Only what is under test should differ."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import to_builtins

from proctor.core.formatting import NO_VALUE
from proctor.core.options import Scope, option_fields
from proctor.core.record import Record
from proctor.core.request import RunRequest
from proctor.core.run import RunConfig

# What a comparison is usually about; `_CONDITIONS` should be the same in every comparison, every other option of a run
# among them. The order of the tasks changes no result.
_SUBJECT: Final = (
    *("agent", "command", "model", "mode", "preset", "pod_template", "variables"),
    *("system_prompt", "append_system_prompt", "allowed_tools", "effort", "agent_env"),
)
_MAX_VALUE_LENGTH: Final = 80
_CONDITIONS: Final = (
    *("benchmark", "origin", "versions", "data_digest", "split", "tasks", "exclude"),
    *(
        name
        for name, field in option_fields(RunRequest).items()
        if field.option.scope is Scope.RUN and name not in {*_SUBJECT, "shuffle"}
    ),
    "machine",
)


# What reports say anyway, and what changes no result.
_NO_SETTINGS: Final = frozenset({"agent", "model", "tasks", "exclude", "grade_concurrency"})
_SETTINGS: Final = tuple(
    name
    for name in (*_SUBJECT, *_CONDITIONS, "shuffle")
    if name in option_fields(RunRequest) and name not in _NO_SETTINGS
)


class Difference(Record):
    """One difference between two configurations.

    Attributes:
        subject: it is part of the agent or model, and may be what the comparison is about; otherwise it is a condition
            that should be the same.
    """

    name: str
    first: str
    second: str
    subject: bool

    def __str__(self) -> str:
        return f"{self.name}: {self.first} and {self.second}"


def settings(config: RunConfig) -> dict[str, str]:
    """The options of a run beside agent and model, as text, where they differ from their defaults."""
    fields, values = option_fields(RunRequest), to_builtins(config)
    return {
        name: setting_text(values[name])
        for name in _SETTINGS
        if values[name] != to_builtins(fields[name].default) and values[name] not in ([], {}, None)
    }


def differing_settings(runs: Sequence[Mapping[str, str]]) -> dict[str, tuple[str, ...]]:
    """The settings in which runs differ, those of the agent first, each with its value in every run."""
    fields = option_fields(RunRequest)
    found = {
        name: tuple(run.get(name, setting_text(to_builtins(fields[name].default))) for run in runs)
        for name in _SETTINGS
    }
    return {name: values for name, values in found.items() if len(set(values)) > 1}


def setting_text(value: object) -> str:
    """The value of an option in a table."""
    shown = _format_value(value)
    return NO_VALUE if shown is None else str(shown)


def differences(one: RunConfig, other: RunConfig) -> tuple[Difference, ...]:
    """All differences, those of agent and model first."""
    before, after = to_builtins(one), to_builtins(other)
    return (
        *_differences(before, after, _SUBJECT, subject=True),
        *_differences(before, after, _CONDITIONS, subject=False),
    )


def _differences(
    one: dict[str, Any], other: dict[str, Any], names: tuple[str, ...], *, subject: bool
) -> Iterator[Difference]:
    def difference(name: str, first: object, second: object) -> Difference:
        return Difference(name=name, first=str(first), second=str(second), subject=subject)

    for name in names:
        before, after = one[name], other[name]
        if name in {"tasks", "exclude"}:
            common = len(set(before) & set(after))
            if set(before) != set(after):
                yield difference(name, len(before), f"{len(after)}, {common} in common")
        elif isinstance(before, dict):
            for key in sorted(before.keys() | after.keys()):
                if before.get(key) != after.get(key):
                    yield difference(f"{name} {key}", _format_value(before.get(key)), _format_value(after.get(key)))
        elif before != after:
            yield difference(name, _format_value(before), _format_value(after))


def _format_value(value: object) -> object:
    match value:
        case list() | tuple():
            return " ".join(map(str, value)) or None
        case dict():
            return " ".join(f"{name}={one}" for name, one in value.items()) or None
        case str():
            line = " ".join(value.split())
            return (
                line
                if len(line) <= _MAX_VALUE_LENGTH
                else f"{line[:_MAX_VALUE_LENGTH].rstrip()}… ({len(value):,} characters)"
            )
    return value
