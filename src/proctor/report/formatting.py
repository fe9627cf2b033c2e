"""How numbers are written for people."""

from typing import Final

from proctor.analysis.intervals import Estimate
from proctor.core.text import money

_MINUTE: Final = 60
_SHOW_TENTHS_BELOW: Final = 9.95
NO_VALUE: Final = "-"

__all__ = [
    "NO_VALUE",
    "duration",
    "excluded_errors_note",
    "interval",
    "money",
    "money_interval",
    "number",
    "percent",
    "percentage_points",
    "plural",
    "short_count",
]


def duration(seconds: float | None) -> str:
    """Minutes and seconds; tenths of seconds where these matter, and hours where seconds do not."""
    if seconds is None:
        return NO_VALUE
    if seconds < _SHOW_TENTHS_BELOW:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), _MINUTE)
    if minutes >= _MINUTE:
        return f"{minutes // _MINUTE}h {minutes % _MINUTE:02}m"
    return f"{minutes}m {rest:02}s" if minutes else f"{rest}s"


def percent(fraction: float | None) -> str:
    """A share of a whole."""
    return NO_VALUE if fraction is None else f"{fraction:.0%}"


def percentage_points(fraction: float | None) -> str:
    """A difference of two shares, with its sign."""
    return NO_VALUE if fraction is None else f"{100 * fraction:+.1f} points"


def number(value: float | None, digits: int = 1) -> str:
    """A plain number."""
    return NO_VALUE if value is None else f"{value:,.{digits}f}"


def plural(count: int, noun: str) -> str:
    """So many things; one thing."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def excluded_errors_note(errors: int) -> str:
    """What a reader of rates must know: that errors are not in them."""
    are = ("was", "is") if errors == 1 else ("were", "are")
    return f"{plural(errors, 'error')} {are[0]} not the agents' doing and {are[1]} left out of the rates."


def interval(low: float | None, high: float | None) -> str:
    """The two ends of a rate's interval."""
    return NO_VALUE if low is None or high is None else f"{low:.0%} to {high:.0%}"


def money_interval(estimate: Estimate | None) -> str:
    """An amount with its interval, where there is one."""
    if estimate is None:
        return NO_VALUE
    if estimate.low is None or estimate.high is None:
        return money(estimate.value)
    return f"{money(estimate.value)} ({money(estimate.low)} to {money(estimate.high)})"


def short_count(value: float | None) -> str:
    """A large number in few digits."""
    if value is None:
        return NO_VALUE
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.1f}{letter}"
    return f"{value:.0f}"
