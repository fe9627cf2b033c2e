"""The file format: sections of `key = JSON`."""

import json
import re

from .errors import ConfigError

_SECTION = re.compile(r"\[([\w.-]+)\]")
_ENTRY = re.compile(r"([\w-]+\+?)\s*=\s*(.*)")


def read(name, text):
    """The text as a tree of dicts."""
    tree = {}
    table = tree
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        section = _SECTION.fullmatch(line)
        if section:
            table = tree
            for part in section.group(1).split("."):
                table = table.setdefault(part, {})
                if not isinstance(table, dict):
                    raise ConfigError(f"{name}, line {number}: {part!r} is a value already")
            continue
        entry = _ENTRY.fullmatch(line)
        if not entry:
            raise ConfigError(f"{name}, line {number}: expected 'key = value'")
        try:
            table[entry.group(1)] = json.loads(entry.group(2))
        except ValueError as error:
            raise ConfigError(f"{name}, line {number}: {error}") from None
    return tree
