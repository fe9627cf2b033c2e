"""Values of a ``task.toml``, each of the kind that Harbor has there; one that is not is named with its file."""

import ipaddress
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from proctor.core.errors import InvalidData

_UNITS: Final = {"G": 1024, "M": 1, "K": 1 / 1024}
_HOST: Final = re.compile(r"(\*\.)?([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?")

Table = dict[str, Any]


class ConfigValues:
    """Reads the values of one file.

    Every method raises `InvalidData` where a value is of another kind.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def fail(self, what: str) -> InvalidData:
        """The error to raise."""
        return InvalidData(what, where=self._file)

    def table(self, raw: Mapping[str, Any], name: str) -> Table:
        """A table; an empty one, where there is none."""
        value = raw.get(name, {})
        if not isinstance(value, dict):
            raise self.fail(f"[{name}] is not a table")
        return value

    def tables(self, raw: Mapping[str, Any], name: str) -> list[Table]:
        """A list of tables."""
        values = self.items(raw, name)
        if not all(isinstance(value, dict) for value in values):
            raise self.fail(f"[[{name}]] is not a list of tables")
        return values

    def items(self, raw: Mapping[str, Any], name: str) -> list[Any]:
        """A list; an empty one, where there is none."""
        value = raw.get(name)
        if value is not None and not isinstance(value, list):
            raise self.fail(f"{name} is {value!r}, not a list")
        return value or []

    def name(self, raw: Mapping[str, Any], default: str) -> str:
        """What the task is called: ORGANISATION/NAME."""
        value = raw.get("name") or default
        if value != default and (not isinstance(value, str) or not _NAME.fullmatch(value) or ".." in value):
            raise self.fail(f"[task] has the name {value!r}, which is not like organisation/name")
        return str(value)

    def text(self, raw: Mapping[str, Any], name: str) -> str | None:
        """A text; None, where there is none."""
        value = raw.get(name)
        if value is not None and not isinstance(value, str):
            raise self.fail(f"{name} is {value!r}, not a text")
        return value or None

    def count(self, raw: Mapping[str, Any], name: str) -> int:
        """A whole number that is not below 0; 0, where there is none."""
        value = raw.get(name) or 0
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self.fail(f"{name} is {value!r}, not a whole number")
        return value

    def positive(self, raw: Mapping[str, Any], name: str, default: float | None = None) -> Any:
        """A number above 0."""
        value = raw.get(name)
        if value is None:
            return default
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value) or value <= 0:
            raise self.fail(f"{name} is {value!r}, not a number above 0")
        return value

    def megabytes(self, raw: Mapping[str, Any], name: str, default: Any) -> Any:
        """A size, from the number or from the text that older files have."""
        number, text = self.positive(raw, f"{name}_mb"), raw.get(name)
        if text is None:
            return default if number is None else number
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([GMK])[iI]?[bB]?", str(text).strip(), re.IGNORECASE)
        if match is None:
            raise self.fail(f"{name} is {text!r}, not a number of G, M or K")
        size = int(float(match[1]) * _UNITS[match[2].upper()])
        if number is not None and number != size:
            raise self.fail(f"{name} is {text!r} and {name}_mb is {number}")
        return size

    def hosts(self, raw: Mapping[str, Any]) -> list[str]:
        """The names, addresses and ranges of `allowed_hosts`."""
        return [self._host(host) for host in self.items(raw, "allowed_hosts")]

    def _host(self, host: Any) -> str:
        name = str(host).strip().lower().rstrip(".")
        try:
            return str(ipaddress.ip_network(name)) if "/" in name else str(ipaddress.ip_address(name))
        except ValueError:
            if not _HOST.fullmatch(name):
                raise self.fail(f"allowed_hosts has {host!r}, which is neither a host's name nor an address") from None
        return name
