"""What may stand in a sweep's file: every key, and what its value must be."""

import shlex
from collections.abc import Callable
from typing import Any, Final

from proctor.core.agent_options import read_tools
from proctor.core.environment import Network
from proctor.core.run import Mode


class InvalidSweepValue(Exception):
    """Why a value cannot be taken, in a few words."""


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InvalidSweepValue("must be a text")
    return value


def _one_of(*choices: str) -> Callable[[object], str]:
    def check(value: object) -> str:
        if value not in choices:
            raise InvalidSweepValue(f"must be one of {', '.join(choices)}")
        return str(value)

    return check


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidSweepValue("must be a whole number, at least 1")
    return value


def _seed(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidSweepValue("must be a whole number")
    return value


def _positive(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < float("inf"):
        raise InvalidSweepValue("must be a number above 0")
    return float(value)


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidSweepValue("must be true or false")
    return value


def _command_words(value: object) -> tuple[str, ...]:
    """A command: one text, read as a shell would, or a list of words."""
    if isinstance(value, str):
        try:
            words = tuple(shlex.split(value))
        except ValueError as error:
            raise InvalidSweepValue(f"cannot be read as a shell would: {error}") from error
    elif isinstance(value, list) and all(isinstance(word, str) for word in value):
        words = tuple(value)
    else:
        raise InvalidSweepValue("must be a command: a text, or a list of words")
    if not words:
        raise InvalidSweepValue("must not be empty")
    return words


def _prompt(value: object) -> str:
    """A prompt, or a file that holds it; an empty one is none, so that a grid can go without."""
    if not isinstance(value, str):
        raise InvalidSweepValue('must be a text, "@FILE", or "" for none')
    return value


def _tools(value: object) -> str:
    read_tools(_text(value))
    return str(value)


def _env(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise InvalidSweepValue("must be a table")
    return {name: template_variable(one) for name, one in value.items()}


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise InvalidSweepValue("must be a list of texts")
    return tuple(value)


def template_variable(value: object) -> str:
    """What a template's variable is filled in with."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise InvalidSweepValue("must be a text, a number, true or false")


ValueCheck = Callable[[object], Any]
CONFIGURATION_KEYS: Final[dict[str, ValueCheck]] = {
    "mode": _one_of(*(mode.value for mode in Mode)),
    "agent": _text,
    "command": _command_words,
    "model": _text,
    "preset": _text,
    "pod_template": _text,
    "attempts": _count,
    "timeout": _positive,
    "max_turns": _count,
    "system_prompt": _prompt,
    "append_system_prompt": _prompt,
    "allowed_tools": _tools,
    "agent_env": _env,
}
SHARED_KEYS: Final[dict[str, ValueCheck]] = {
    "name": _text,
    "benchmark": _text,
    "suite": _text,
    "split": _text,
    "tasks": _texts,
    "filter": _text,
    "tags": _texts,
    "exclude": _text,
    "limit": _count,
    "shuffle": _seed,
    "concurrency": _count,
    "grade_concurrency": _count,
    "max_cost": _positive,
    "max_cost_per_task": _positive,
    "network": _one_of(*(network.value for network in Network)),
    "runner": _text,
    "image": _text,
    "isolation": _boolean,
    "baseline": _text,
    "rule": _text,
}
