"""What a user may have meant by a name that is not known."""

from collections.abc import Iterable
from typing import Final

_SIMILAR: Final = 0.6


def closest(name: str, known: Iterable[str], *, cutoff: float = _SIMILAR) -> str | None:
    """The known name that is most like this one, if any is like it at all."""
    import difflib

    names = {one.lower(): one for one in known}
    return next((names[one] for one in difflib.get_close_matches(name.lower(), names, n=1, cutoff=cutoff)), None)


def suggest(name: str, known: Iterable[str], otherwise: str) -> str:
    """The fix for a name that is not known: the one that may have been meant, before what else there is."""
    near = closest(name, known)
    return f"did you mean {near!r}? {otherwise}" if near else otherwise
