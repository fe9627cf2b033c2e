"""What templates need beyond `core.formatting`: URLs, JSON, sums."""

from datetime import datetime
from urllib.parse import urlencode

from proctor.core.formatting import duration
from proctor.core.record import to_json
from proctor.core.result import ModelUsage


def since_start(moment: str | None, start: str | None) -> str:
    """The time from the start to a moment."""
    try:
        passed = (datetime.fromisoformat(moment or "") - datetime.fromisoformat(start or "")).total_seconds()
    except (ValueError, TypeError):
        return ""
    return f"+{duration(max(0.0, passed))}"


def pretty_json(value: object) -> str:
    """A value as indented JSON."""
    return to_json(value).decode().rstrip()


def sum_tokens(usage: tuple[ModelUsage, ...]) -> int:
    """All tokens of all models."""
    return sum(model.tokens.total for model in usage)


def url(path: str, /, **parameters: object) -> str:
    """A page's URL; empty parameters are left out."""
    given = {
        name: "1" if value is True else value for name, value in parameters.items() if value not in {None, "", False}
    }
    return f"{path}?{urlencode(given)}" if given else path
