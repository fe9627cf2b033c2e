"""Where Proctor keeps things on a user's machine."""

import os
from pathlib import Path
from typing import Final

HEALTH_CACHE: Final = "health"  # the part of the cache that holds what `validate` has learned


def cache_root() -> Path:
    """Where everything that can be had again is kept: PROCTOR_CACHE, or the user's cache folder."""
    given = os.environ.get("PROCTOR_CACHE")
    if given:
        return Path(given).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "proctor"
