"""Which tasks of a stored run are known to be sound on this machine."""

from collections.abc import Iterable
from pathlib import Path

from proctor.core.paths import HEALTH_CACHE, cache_root
from proctor.core.run import RunConfig


class HealthLookup:
    """The healthy tasks of stored runs; looked up once for all runs that were made of the same tasks in the same way.

    Args:
        asked: whether to look; None: only where that can pull no image.
    """

    def __init__(self, *, enabled: bool | None = None) -> None:
        self._enabled = enabled
        self._known: dict[object, dict[str, bool | None]] = {}

    def __call__(self, config: RunConfig) -> frozenset[str] | None:
        """Those of this run; None when nobody has tried any, or we are not to look."""
        if self._enabled is False or (self._enabled is None and config.runner == "docker"):
            return None
        if not (cache_root() / HEALTH_CACHE).is_dir():
            return None
        way = (config.benchmark, config.source, config.split, config.runner, config.isolation, config.image)
        known = self._known.setdefault((*way, tuple(config.image_map.items())), {})
        new = [task for task in config.tasks if task not in known]
        if new:
            import asyncio  # noqa: PLC0415 - most reports need none of what follows

            known.update(dict.fromkeys(new), **asyncio.run(read_health(config, new)))
        tried = {task: sound for task in config.tasks if (sound := known[task]) is not None}
        return frozenset(task for task, sound in tried.items() if sound) if tried else None


async def read_health(config: RunConfig, task_ids: Iterable[str]) -> dict[str, bool]:
    """What `validate` found, of those of the wanted tasks that it has tried in rooms like this run's.

    With docker, an image that is not on this machine is pulled to learn which one it is.
    """
    from proctor.benchmarks import reopen  # noqa: PLC0415 - as above
    from proctor.core.benchmark import GradeOptions, GradingContext  # noqa: PLC0415
    from proctor.core.errors import ProctorError  # noqa: PLC0415
    from proctor.environments import provider  # noqa: PLC0415
    from proctor.runner.evaluate import health_cache, health_key  # noqa: PLC0415

    try:
        benchmark = reopen(config.benchmark, config.source, config.split)
    except ProctorError:
        return {}  # its data is gone, so nothing can be known of it
    options = {"image_map": config.image_map} if config.image_map else {}
    rooms = provider(config.runner, isolation=config.isolation, **options)
    place = GradingContext(provider=rooms, folder=Path(), options=GradeOptions(image=config.image))
    asked, known, found = set(task_ids), health_cache(), {}
    try:
        for task in benchmark.tasks():
            if task.id in asked:
                health = known.get(await health_key(benchmark, task, place))
                if health is not None:
                    found[task.id] = health.healthy
    except ProctorError:
        return {}  # no room for it can be had here, so nobody can have tried
    finally:
        await rooms.close()
    return found
