"""UTF-8 locales of this machine, in the place of those that official scripts name and their images generate.

Where a locale is missing, C's takes its place without a word, and with it ASCII: Python up to 3.6 then reads and
prints nothing else.
"""

import ctypes
import re
from collections.abc import Callable
from functools import cache
from typing import Final

_ASSIGNMENT: Final = re.compile(
    r"""\b(?P<variable>LANG|LC_[A-Z]+)=(?P<quote>["']?)(?P<name>[\w@.-]+)(?P=quote)(?![\w@.-])"""
)
_UTF8: Final = re.compile(r"\.utf-?8(@|$)", re.IGNORECASE)
# C.UTF-8 is in every C library of today; the others are where administrators put them first.
_SUBSTITUTES: Final = ("C.UTF-8", "en_US.UTF-8", "en_GB.UTF-8", "POSIX.UTF-8")
_LC_CTYPE_MASK: Final = 1

LocaleCheck = Callable[[str], bool]


@cache
def has_locale(name: str) -> bool:
    """Whether the C library has a locale, asked without changing this process's own."""
    library = ctypes.CDLL(None)
    library.newlocale.restype = ctypes.c_void_p
    library.newlocale.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
    library.freelocale.argtypes = (ctypes.c_void_p,)
    found = library.newlocale(_LC_CTYPE_MASK, name.encode(), None)
    if found:
        library.freelocale(found)
    return bool(found)


def with_present_locales(line: str, has: LocaleCheck) -> str:
    """A shell line in which every UTF-8 locale that is missing is replaced by one that is there, if there is any."""

    def replaced(match: re.Match[str]) -> str:
        name = _substitute(match["name"], has) or match["name"]
        return f"{match['variable']}={match['quote']}{name}{match['quote']}"

    return _ASSIGNMENT.sub(replaced, line)


def missing_locales(line: str, has: LocaleCheck) -> tuple[str, ...]:
    """The UTF-8 locales in a shell line for which this machine has no other."""
    names = (match["name"] for match in _ASSIGNMENT.finditer(line))
    return tuple(dict.fromkeys(name for name in names if _substitute(name, has) is None))


def _substitute(name: str, has: LocaleCheck) -> str | None:
    if not _UTF8.search(name):
        return name
    return next((one for one in (name, *_SUBSTITUTES) if has(one)), None)
