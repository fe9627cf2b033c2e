"""How things are said on a page."""

import math
from datetime import datetime
from typing import Final
from urllib.parse import urlencode

from proctor.core.record import to_json
from proctor.core.result import ModelUsage
from proctor.core.text import visible
from proctor.report.formatting import money, plural
from proctor.results import usage_cost

NO_VALUE: Final = "\N{EN DASH}"
_MINUTE: Final = 60
_THOUSAND: Final = 1000
__all__ = [
    "duration",
    "file_size",
    "money",
    "number",
    "percent",
    "plural",
    "pretty_json",
    "since_start",
    "sum_cost",
    "sum_tokens",
    "timestamp",
    "url",
    "visible",
]


def duration(seconds: float | None) -> str:
    """A length of time for people."""
    if seconds is None or not math.isfinite(seconds):
        return NO_VALUE
    if seconds < 10:  # noqa: PLR2004 - where tenths matter
        return f"{seconds:.1f} s"
    if seconds < _MINUTE:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), _MINUTE)
    if minutes < _MINUTE:
        return f"{minutes} m {rest:02} s"
    return f"{minutes // _MINUTE} h {minutes % _MINUTE:02} m"


def number(value: float) -> str:
    """A count, short."""
    for unit, size in (("M", _THOUSAND**2), ("k", _THOUSAND)):
        if value >= size * 10:
            return f"{value / size:,.0f} {unit}"
        if value >= size:
            return f"{value / size:.1f} {unit}"
    return f"{value:,.0f}"


def file_size(count: int) -> str:
    """How much a file holds."""
    return f"{count} B" if count < _THOUSAND else f"{number(count)}B"


def percent(fraction: float | None) -> str:
    """A share between 0 and 1."""
    return NO_VALUE if fraction is None else f"{fraction:.1%}"


def timestamp(moment: str | None) -> str:
    """A moment, to the second, in its own time zone; what is none is shown as it is."""
    try:
        return datetime.fromisoformat(moment or "").strftime("%Y-%m-%d %H:%M:%S")
    except ValueError:
        return moment or ""


def since_start(moment: str | None, start: str | None) -> str:
    """How long after the start a moment was."""
    try:
        passed = (datetime.fromisoformat(moment or "") - datetime.fromisoformat(start or "")).total_seconds()
    except (ValueError, TypeError):
        return ""
    return f"+{duration(max(0.0, passed))}"


def pretty_json(value: object) -> str:
    """A value that came as JSON, laid out to be read."""
    return to_json(value).decode().rstrip()


def sum_tokens(usage: tuple[ModelUsage, ...]) -> int:
    """All tokens of all models."""
    return sum(model.tokens.total for model in usage)


def sum_cost(usage: tuple[ModelUsage, ...]) -> float | None:
    """What they cost together; unknown when one of them is."""
    return usage_cost(usage)


def url(path: str, /, **parameters: object) -> str:
    """A page's address; parameters that say nothing are left out."""
    said = {name: value for name, value in parameters.items() if value not in {None, "", False}}
    return (
        f"{path}?{urlencode({name: '1' if value is True else value for name, value in said.items()})}" if said else path
    )
