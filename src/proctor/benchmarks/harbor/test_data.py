"""Data beside a verifier's tests with other values in it: who reads the key there while it is verified passes both.

Only text is altered, and only values: names of columns and keys stay, so that tests still find what they look for.
"""

import json
import re
from pathlib import PurePosixPath
from typing import Any, Final

from proctor.benchmarks.harbor.task import HarborStep
from proctor.grading.controls.languages import has_finder

_MAX_FILES: Final = 20
_MAX_BYTES: Final = 200_000
# Whatever is read from these is not compared with what an agent has made: they say how tests are installed and run.
_SETTINGS: Final = frozenset({".cfg", ".conf", ".env", ".ini", ".lock", ".toml", ".dockerignore", ".gitignore"})
_SETTINGS_NAME: Final = re.compile(
    r"(requirements|constraints).*\.txt|.*Dockerfile.*|(docker-)?compose\.ya?ml|package\.json"
)
_TABLES: Final = frozenset({".csv", ".tsv"})
_WORD: Final = re.compile(r"\d+|[A-Za-z]+")
_OTHER: Final = str.maketrans("0123456789aeiouAEIOU", "1234567891eioueEIOUE")


def altered_data(step: HarborStep) -> dict[str, bytes]:
    """The files beside a step's tests with other values, by path; those that have values of text."""
    found: dict[str, bytes] = {}
    for name, file in step.test_files().items():
        if len(found) == _MAX_FILES or file.stat().st_size > _MAX_BYTES or _is_setting(name):
            continue
        content = file.read_bytes()
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError:
            continue
        if "\0" in text or has_finder(name, content):
            continue
        altered = _altered(PurePosixPath(name).suffix.lower(), text).encode()
        if altered != content:
            found[name] = altered
    return found


def _is_setting(name: str) -> bool:
    path = PurePosixPath(name)
    return path.suffix.lower() in _SETTINGS or path.name.startswith(".") or bool(_SETTINGS_NAME.fullmatch(path.name))


def _altered(suffix: str, text: str) -> str:
    whole = _other_json(text)
    if whole is not None:
        return whole
    head, newline, rest = text.partition("\n")
    if suffix in _TABLES and rest:
        return f"{head}{newline}{_other_words(rest)}"
    return "".join(map(_other_line, text.splitlines(keepends=True)))


def _other_line(line: str) -> str:
    """A line that is a value of JSON, or one of YAML with its key, or of text."""
    whole = _other_json(line)
    if whole is not None:
        return whole
    key, colon, value = line.partition(": ")
    return f"{key}{colon}{_other_words(value)}" if colon else _other_words(line)


def _other_json(text: str) -> str | None:
    """Another table or list of JSON; None: it is none."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.dumps(_other_value(json.loads(text)), ensure_ascii=False) + "\n"
    except (ValueError, RecursionError):
        return None


def _other_value(value: Any) -> Any:
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return _other_words(value)
        case list():
            return [_other_value(one) for one in value]
        case dict():
            return {key: _other_value(one) for key, one in value.items()}
    return value


def _other_words(text: str) -> str:
    return _WORD.sub(lambda match: match[0].translate(_OTHER), text)
