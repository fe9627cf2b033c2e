"""Where Proctor stores files on a user's machine."""

import os
from pathlib import Path
from typing import Final

HEALTH_CACHE: Final = "health"  # the part of the cache for the results of `validate`


def cache_root() -> Path:
    """The folder for everything that can be made again: PROCTOR_CACHE, or one in the user's cache folder."""
    given = os.environ.get("PROCTOR_CACHE")
    if given:
        return Path(given).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "proctor"
