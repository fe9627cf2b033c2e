import re
from datetime import date

from .rule import WEEKDAYS, Rule

_RULE = re.compile(
    r"every(?: ([0-9]+))? (day|week)s?"
    r"(?: on ([a-z, ]+?))?"
    r"(?: until ([0-9]{4}-[0-9]{2}-[0-9]{2})| ([0-9]+) times)?",
    re.ASCII,
)


def parse(text):
    """The rule that is written like this."""
    match = _RULE.fullmatch(" ".join(text.lower().split()))
    if match is None:
        raise ValueError(f"not a rule: {text!r}")
    interval, unit, on, until, count = match.groups()
    if on is not None and unit != "week":
        raise ValueError(f"not a rule: {text!r} ('on' is for weeks)")
    return Rule(
        unit,
        interval=int(interval or 1),
        weekdays=_choices(on, WEEKDAYS),
        until=None if until is None else date(*map(int, until.split("-"))),
        count=None if count is None else int(count),
    )


def _choices(text, names):
    """The numbers of the names in a list with commas."""
    if text is None:
        return []
    found = [word.strip() for word in text.split(",")]
    for word in found:
        if word not in names:
            raise ValueError(f"expected one of {', '.join(names)}, not {word!r}")
    return [names.index(word) for word in found]
