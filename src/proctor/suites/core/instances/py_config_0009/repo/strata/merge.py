"""Putting one layer on another."""

from .errors import ConfigError


def merge(base, layer, where):
    """Puts `layer` on top of `base`."""
    for key, value in layer.items():
        if key.endswith("+"):
            key = key[:-1]
            present = base.setdefault(key, [])
            if not isinstance(present, list) or not isinstance(value, list):
                raise ConfigError(f"{where}: {key + '+'!r} needs a list on both sides")
            present.extend(value)
        elif value is None:
            base.pop(key, None)
        elif isinstance(value, dict) and isinstance(base.get(key), dict):
            merge(base[key], value, where)
        else:
            base[key] = value
