"""The images of an engine: brought before they are needed, within a budget of disk, and let go when it is used up.

What Proctor has pulled is written down in the cache folder, for each engine, so that a later run knows what it may
remove. Sizes are the engine's own; layers that images share are counted with each of them, so the disk never holds
more than is counted.
"""

import asyncio
import re
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from aiodocker import Docker, DockerError
from aiodocker.jsonstream import json_stream_stream
from aiohttp import ClientTimeout
from msgspec import field

from proctor.core.errors import InfrastructureError, InvalidData
from proctor.core.files import file_lock, write_atomic
from proctor.core.record import Record, read_record, to_json
from proctor.environments.docker_build import BUILT_LABELS
from proctor.environments.docker_engine import engine_errors, is_conflict, is_missing
from proctor.environments.image_cache import EvictImage, ImageCacheState, PullImage, next_action

_REGISTRY_SECONDS: Final = 20
_NO_TIMEOUT: Final = ClientTimeout(total=None)
PullCallback = Callable[[str, dict[str, Any]], None]


class PulledImage(Record):
    """An image that Proctor has pulled."""

    id: str
    size: int
    used_at: float


class PulledImages(Record):
    """What Proctor has pulled to one engine, by name."""

    images: dict[str, PulledImage] = field(default_factory=dict)


class ImageManager:
    """The images of one engine.

    Args:
        docker: gives the client.
        budget: how many bytes the images that Proctor brings may take; None is no limit.
        folder: where it is written down what was brought.
        on_progress: called with each step of a pull.
    """

    def __init__(
        self, docker: Callable[[], Docker], *, budget: int | None, index_dir: Path, on_progress: PullCallback
    ) -> None:
        self._docker = docker
        self._budget = budget
        self._index_dir = index_dir
        self._on_progress = on_progress
        self._index_file: Path | None = None
        self._loading = asyncio.Lock()
        self._positions: dict[str, deque[int]] = {}
        self._waiting: dict[str, list[asyncio.Future[None]]] = {}
        self._pulled: dict[str, PulledImage] = {}
        self._managed: dict[str, int] = {}
        self._unmanaged: set[str] = set()
        self._pulling: dict[str, int] = {}
        self._evicting: dict[str, asyncio.Task[None]] = {}
        self._pins: Counter[str] = Counter()
        self._unremovable: set[str] = set()
        self._failed: dict[str, InfrastructureError] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def prefetch(self, images: Sequence[str]) -> None:
        """Set which images the work will need, in order, one for each piece of work. Replaces the list set before."""
        self._positions = {}
        for place, image in enumerate(images):
            self._positions.setdefault(image, deque()).append(place)
        self._spawn(self._start_prefetch())

    def release(self, image: str) -> None:
        """One piece of the expected work with this image is over."""
        places = self._positions.get(image)
        if places is None:
            return
        places.popleft()
        if not places:
            del self._positions[image]
        self._schedule()

    def pin(self, image: str) -> Callable[[], None]:
        """Keep an image from being let go, until what is handed back is called."""
        self._pins[image] += 1
        released = False

        def release() -> None:
            nonlocal released
            if not released:
                released = True
                self._pins[image] -= 1
                self._schedule()

        return release

    async def ensure(self, image: str) -> dict[str, Any]:
        """The engine's description of an image, which is pulled if it is not there.

        Raises:
            InfrastructureError: it cannot be had, or is larger than the whole budget.
        """
        release = self.pin(image)
        try:
            while True:
                if image in self._evicting:
                    await asyncio.wait({self._evicting[image]})
                known = await inspect_image(self._docker(), image)
                if known is not None:
                    self._mark_used(image)
                    return known
                await self._wait_for_pull(image)
        finally:
            release()

    async def record_build(self, made: Mapping[str, Any], bases: Sequence[str]) -> None:
        """An image was built on top of these. What it adds to one that we brought counts, and goes, with that one."""
        for image in bases:
            base = await inspect_image(self._docker(), image) if image in self._managed else None
            if base is None or not _is_layered_on(made, base):
                continue
            was = self._pulled[image]
            added = max(0, int(made.get("Size", 0)) - int(base.get("Size", 0)))
            grown = PulledImage(id=was.id, size=was.size + added, used_at=time.time())
            self._pulled[image], self._managed[image] = grown, grown.size
            await asyncio.to_thread(self._write_index, {image: grown}, ())
        self._schedule()

    async def close(self) -> None:
        """Stop pulling, and write down what was used when."""
        tasks, self._positions = self._tasks, {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._index_file is not None and self._pulled:
            await asyncio.to_thread(self._write_index, dict(self._pulled), ())

    async def _wait_for_pull(self, image: str) -> None:
        """Wait for the pull of an image that is not there."""
        await self._load()
        self._managed.pop(image, None)
        self._unmanaged.discard(image)
        self._failed.pop(image, None)
        arrival = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(image, []).append(arrival)
        try:
            self._schedule()
            await arrival
        finally:
            waiting = self._waiting.get(image, [])
            if arrival in waiting:
                waiting.remove(arrival)
            if not waiting:
                self._waiting.pop(image, None)

    async def _start_prefetch(self) -> None:
        try:
            await self._load()
        except InfrastructureError:
            return  # starting an environment will raise it
        self._schedule()

    async def _load(self) -> None:
        """See, once, what is on the engine, and what of it we brought."""
        async with self._loading:
            if self._index_file is not None:
                return
            docker = self._docker()
            with engine_errors("list its images"):
                engine = str((await docker.system.info()).get("ID", ""))
                listed = await docker.images.list()
            ids = {_normalized_name(name): str(one["Id"]) for one in listed for name in _image_names(one)}
            index_file = self._index_dir / f"{re.sub(r'[^A-Za-z0-9]', '', engine) or 'engine'}.json"
            known = await asyncio.to_thread(_read_pulled, index_file)
            there = {name: was for name, was in known.items() if ids.get(_normalized_name(name)) == was.id}
            for name, was in sorted(there.items(), key=lambda item: item[1].used_at):
                self._pulled[name] = was
                self._managed[name] = was.size
            self._unmanaged |= {name for name in self._positions if _normalized_name(name) in ids} - set(self._managed)
            self._index_file = index_file

    def _schedule(self) -> None:
        """Do what can be done now."""
        if self._index_file is None:
            return
        while (step := next_action(self._cache_state())) is not None:
            match step:
                case PullImage(image, reserve):
                    self._pulling[image] = reserve
                    self._spawn(self._pull(image))
                case EvictImage(image):
                    self._evicting[image] = self._spawn(self._evict(image))

    def _cache_state(self) -> ImageCacheState:
        return ImageCacheState(
            budget=self._budget,
            requested=tuple(self._waiting),
            planned=sorted(self._positions, key=lambda image: self._positions[image][0]),
            managed=self._managed,
            unmanaged=self._unmanaged,
            pulling=self._pulling,
            evicting=self._evicting.keys(),
            in_use={image for image, count in self._pins.items() if count} | self._unremovable,
            failed=self._failed.keys(),
            largest=max((was.size for was in self._pulled.values()), default=0),
        )

    async def _pull(self, image: str) -> None:
        try:
            await self._pull_and_record(image)
        except InfrastructureError as error:
            self._failed[image] = error
        finally:
            self._pulling.pop(image, None)
            failure = self._failed.get(image)
            for arrival in self._waiting.get(image, ()):
                if arrival.done():
                    continue
                if failure is None:
                    arrival.set_result(None)
                else:
                    arrival.set_exception(failure)
        self._schedule()

    async def _pull_and_record(self, image: str) -> None:
        docker = self._docker()
        if await inspect_image(docker, image) is not None:
            self._unmanaged.add(image)
            return
        try:
            await self._stream_pull(docker, image)
            described = await docker.images.inspect(image)
        except DockerError as error:
            raise InfrastructureError(
                f"the image {image} is not on this machine and cannot be pulled ({error.message})",
                fix="bring it here with `docker load`, or name another one for it with --image-map",
            ) from error
        was = PulledImage(id=str(described["Id"]), size=int(described.get("Size", 0)), used_at=time.time())
        if self._budget is not None and was.size > self._budget:
            await self._remove(image, was.id)
            raise InfrastructureError(
                f"the image {image} takes {was.size:,} bytes, more than all images may together",
                fix="allow more with --image-disk",
            )
        await asyncio.to_thread(self._write_index, {image: was}, ())
        self._pulled[image], self._managed[image] = was, was.size

    async def _stream_pull(self, docker: Docker, image: str) -> None:
        """Pull an image. The library's own call leaves the connection open, and the pull going on, when cancelled."""
        query = docker._query(  # noqa: SLF001 - the library has no public call that can be cancelled
            "images/create", "POST", params={"fromImage": _normalized_name(image)}, timeout=_NO_TIMEOUT
        )
        async with query as response:
            try:
                async for step in json_stream_stream(response):
                    self._on_progress(image, step)
            finally:
                response.close()

    async def _evict(self, image: str) -> None:
        try:
            await self._remove(image, self._pulled[image].id)
        except InfrastructureError:
            self._unremovable.add(image)  # another process has an environment on it, or the engine failed
        finally:
            self._evicting.pop(image, None)
        self._schedule()

    async def _remove(self, image: str, identity: str) -> None:
        docker = self._docker()
        described = await inspect_image(docker, image)
        if described is not None and described["Id"] == identity:
            with engine_errors(f"remove the image {image}"):
                for name in (*await _built_on(docker, described), image):
                    try:
                        await docker.images.delete(name)
                    except DockerError as error:
                        if is_conflict(error) or not is_missing(error):
                            raise
        self._managed.pop(image, None)
        self._pulled.pop(image, None)
        await asyncio.to_thread(self._write_index, {}, (image,))

    def _mark_used(self, image: str) -> None:
        if image not in self._managed:
            if image not in self._pulling:
                self._unmanaged.add(image)
            return
        self._managed[image] = self._managed.pop(image)
        self._pulled[image] = PulledImage(id=self._pulled[image].id, size=self._pulled[image].size, used_at=time.time())

    def _write_index(self, add: Mapping[str, PulledImage], remove: Sequence[str]) -> None:
        """Change what is written down; other processes may be at it too."""
        if self._index_file is None:
            return
        self._index_dir.mkdir(parents=True, exist_ok=True)
        with file_lock(self._index_dir / "lock", what="the list of images"):
            images = _read_pulled(self._index_file) | dict(add)
            kept = {name: was for name, was in images.items() if name not in remove}
            write_atomic(self._index_file, to_json(PulledImages(images=kept)))

    def _spawn(self, coroutine: Any) -> "asyncio.Task[None]":
        task: asyncio.Task[None] = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


async def _built_on(docker: Docker, base: Mapping[str, Any]) -> list[str]:
    """Images of our own making on top of another one: as long as they are there, its layers are."""
    listed = await docker.images.list(filters={"label": [f"{name}={value}" for name, value in BUILT_LABELS.items()]})
    found = [await inspect_image(docker, str(one["Id"])) for one in listed]
    return [str(made["Id"]) for made in found if made is not None and _is_layered_on(made, base)]


def _is_layered_on(made: Mapping[str, Any], base: Mapping[str, Any]) -> bool:
    upper, lower = made["RootFS"].get("Layers") or [], base["RootFS"].get("Layers") or []
    return bool(lower) and made["Id"] != base["Id"] and upper[: len(lower)] == lower


async def inspect_image(docker: Docker, image: str) -> dict[str, Any] | None:
    """The engine's description of an image; None when it is not there."""
    try:
        with engine_errors(f"look for the image {image}"):
            return await docker.images.inspect(image)
    except InfrastructureError as error:
        if not is_missing(error.__cause__):
            raise
    return None


async def check_in_registry(docker: Docker, image: str) -> None:
    """See that an image can be had from its registry, without pulling it.

    Raises:
        InfrastructureError: it cannot.
    """
    fix = "bring it here with `docker load`, or name another one for it with --image-map"
    try:
        async with asyncio.timeout(_REGISTRY_SECONDS):
            await docker._query_json(f"distribution/{image}/json")  # noqa: SLF001 - the client has no name for it
    except DockerError as error:
        message = " ".join(str(error.message).split())
        raise InfrastructureError(
            f"the image {image} is not on this machine, and cannot be pulled ({message})", fix=fix
        ) from error
    except TimeoutError as error:
        raise InfrastructureError(
            f"the image {image} is not on this machine, and its registry does not answer", fix=fix
        ) from error


def _read_pulled(index_file: Path) -> dict[str, PulledImage]:
    try:
        return dict(read_record(index_file, PulledImages).images)
    except InvalidData:
        return {}  # there is none yet, or it is broken: then nothing is ours to remove


def _image_names(listed: Mapping[str, Any]) -> list[str]:
    return [*(listed.get("RepoTags") or ()), *(listed.get("RepoDigests") or ()), str(listed["Id"])]


def _normalized_name(name: str) -> str:
    """The name under which an engine lists an image."""
    short = name.removeprefix("docker.io/").removeprefix("library/")
    return short if "@" in short or ":" in short.rpartition("/")[2] else f"{short}:latest"
