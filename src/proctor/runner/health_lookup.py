"""Which tasks of a stored run are known to be healthy on this machine."""

from proctor.core.files import HEALTH_CACHE, cache_root
from proctor.core.run import RunConfig


class HealthLookup:
    """The healthy tasks of stored runs; looked up once for all runs that were made of the same tasks in the same way.

    Args:
        enabled: whether to look; None: only where that can pull no image.
    """

    def __init__(self, *, enabled: bool | None = None) -> None:
        self._enabled = enabled
        self._known: dict[object, dict[str, bool | None]] = {}

    def __call__(self, config: RunConfig) -> frozenset[str] | None:
        """Those of this run; None when none was tried, or when not enabled."""
        if self._enabled is False or (self._enabled is None and config.runner == "docker"):
            return None
        if not (cache_root() / HEALTH_CACHE).is_dir():
            return None
        key = (config.benchmark, config.source, config.split, config.runner, config.isolation, config.image)
        known = self._known.setdefault((*key, tuple(config.image_map.items()), config.force_build), {})
        new = [task for task in config.tasks if task not in known]
        if new:
            # Most reports need none of it.
            import asyncio

            from proctor.runner.evaluate import read_health

            known.update(dict.fromkeys(new), **asyncio.run(read_health(config, new)))
        tried = {task: healthy for task in config.tasks if (healthy := known[task]) is not None}
        return frozenset(task for task, healthy in tried.items() if healthy) if tried else None
