"""`${a.b}` in strings."""

import json
import re

from .errors import ConfigError

_REFERENCE = re.compile(r"\$\$\{|\$\{([^{}]*)\}")


def look_up(tree, key):
    """The raw value under a dotted key; KeyError if there is none."""
    for part in key.split("."):
        if not isinstance(tree, dict) or part not in tree:
            raise KeyError(key)
        tree = tree[part]
    return tree


def put_in(tree):
    """Replaces all references in the tree."""
    _expand(tree, "", tree, ())


def _expand(tree, key, value, chain):
    if isinstance(value, dict):
        for name, item in value.items():
            value[name] = _expand(tree, f"{key}.{name}" if key else name, item, chain)
        return value
    if isinstance(value, list):
        value[:] = [_expand(tree, key, item, chain) for item in value]
        return value
    if not isinstance(value, str):
        return value
    whole = _REFERENCE.fullmatch(value)
    if whole and whole.group(1) is not None:
        return _follow(tree, key, whole.group(1), chain)

    def text_of(match):
        if match.group(1) is None:
            return "${"
        found = _follow(tree, key, match.group(1), chain)
        return found if isinstance(found, str) else json.dumps(found)

    return _REFERENCE.sub(text_of, value)


def _follow(tree, key, target, chain):
    if target in chain:
        raise ConfigError(f"{key}: ${{{target}}} comes back to itself")
    try:
        value = look_up(tree, target)
    except KeyError:
        raise ConfigError(f"{key}: ${{{target}}} is not there") from None
    return _expand(tree, target, value, chain + (target,))
