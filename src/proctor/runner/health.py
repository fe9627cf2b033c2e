"""Which tasks of a stored run are known to be sound on this machine."""

from collections.abc import Iterable
from pathlib import Path

from proctor.core.benchmark import HEALTH_CACHE
from proctor.core.places import cache_root
from proctor.core.run import RunConfig


class KnownHealth:
    """The healthy tasks of stored runs; looked up once for all runs that were made of the same tasks in the same way.

    Args:
        asked: whether to look; None: only where that can pull no image.
    """

    def __init__(self, *, asked: bool | None = None) -> None:
        self._asked = asked
        self._known: dict[object, frozenset[str] | None] = {}

    def __call__(self, config: RunConfig) -> frozenset[str] | None:
        """Those of this run; None when nobody has tried, or we are not to look."""
        if self._asked is False or (self._asked is None and config.runner == "docker"):
            return None
        way = (config.benchmark, config.source, config.split, config.runner, config.isolation, config.image)
        key = (*way, tuple(config.image_map.items()), config.tasks)
        if key not in self._known:
            self._known[key] = _healthy_tasks(config)
        return self._known[key]


def _healthy_tasks(config: RunConfig) -> frozenset[str] | None:
    if not (cache_root() / HEALTH_CACHE).is_dir():
        return None
    import asyncio  # noqa: PLC0415 - most reports need none of what follows

    return asyncio.run(healthy_tasks(config, config.tasks))


async def healthy_tasks(config: RunConfig, wanted: Iterable[str]) -> frozenset[str] | None:
    """Those of the wanted tasks that `validate` found healthy in rooms like this run's; None when nobody has tried.

    With docker, an image that is not on this machine is pulled to learn which one it is.
    """
    from proctor.benchmarks import reopen  # noqa: PLC0415 - as above
    from proctor.core.benchmark import GradeOptions, Place  # noqa: PLC0415
    from proctor.core.errors import ProctorError  # noqa: PLC0415
    from proctor.environments import provider  # noqa: PLC0415
    from proctor.runner.evaluate import health_key, known_healths  # noqa: PLC0415

    try:
        benchmark = reopen(config.benchmark, config.source, config.split)
    except ProctorError:
        return None  # its data is gone, so nothing can be known of it
    options = {"image_map": config.image_map} if config.image_map else {}
    rooms = provider(config.runner, isolation=config.isolation, **options)
    place = Place(provider=rooms, folder=Path(), options=GradeOptions(image=config.image))
    asked, known = set(wanted), known_healths()
    sound, tried = set(), False
    try:
        for task in benchmark.tasks():
            if task.id in asked:
                health = known.get(await health_key(benchmark, task, place))
                tried = tried or health is not None
                if health is not None and health.healthy:
                    sound.add(task.id)
    except ProctorError:
        return None  # no room for it can be had here, so nobody can have tried
    finally:
        await rooms.close()
    return frozenset(sound) if tried else None
