"""Which tasks of a stored run are known to be healthy on this machine."""

from collections.abc import Iterable
from pathlib import Path

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
        known = self._known.setdefault((*key, tuple(config.image_map.items())), {})
        new = [task for task in config.tasks if task not in known]
        if new:
            import asyncio  # noqa: PLC0415 - most reports need none of what follows

            known.update(dict.fromkeys(new), **asyncio.run(read_health(config, new)))
        tried = {task: healthy for task in config.tasks if (healthy := known[task]) is not None}
        return frozenset(task for task, healthy in tried.items() if healthy) if tried else None


async def read_health(config: RunConfig, task_ids: Iterable[str]) -> dict[str, bool]:
    """What `validate` found, of those of these tasks that it has tried in environments like this run's.

    With docker, an image that is not on this machine is pulled to learn its digest.
    """
    from proctor.benchmarks import reopen  # noqa: PLC0415 - as above
    from proctor.core.benchmark import GradeOptions, GradingContext  # noqa: PLC0415
    from proctor.core.errors import ProctorError  # noqa: PLC0415
    from proctor.environments import provider as find_provider  # noqa: PLC0415
    from proctor.runner.evaluate import health_cache, health_key  # noqa: PLC0415

    try:
        benchmark = reopen(config.benchmark, config.source, config.split)
    except ProctorError:
        return {}  # its data is gone, so nothing can be known of it
    options = {"image_map": config.image_map} if config.image_map else {}
    provider = find_provider(config.runner, isolation=config.isolation, **options)
    context = GradingContext(provider=provider, folder=Path(), options=GradeOptions(image=config.image))
    wanted, known, found = set(task_ids), health_cache(), {}
    try:
        for task in benchmark.tasks():
            if task.id in wanted:
                health = known.get(await health_key(benchmark, task, context))
                if health is not None:
                    found[task.id] = health.healthy
    except ProctorError:
        return {}  # no environment for it can be made here, so it cannot have been tried
    finally:
        await provider.close()
    return found
