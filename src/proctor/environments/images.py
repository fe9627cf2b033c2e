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
from proctor.core.files import locked, write_atomic
from proctor.core.record import Record, read_record, to_json
from proctor.environments.docker_build import BUILT
from proctor.environments.engine import engine_errors, is_conflict, is_missing
from proctor.environments.shelf import Evict, Pull, Shelf, next_step

_REGISTRY_SECONDS: Final = 20
_NO_HURRY: Final = ClientTimeout(total=None)
Step = Callable[[str, dict[str, Any]], None]


class Brought(Record):
    """An image that Proctor has pulled."""

    id: str
    size: int
    used_at: float


class Ledger(Record):
    """What Proctor has pulled to one engine, by name."""

    images: dict[str, Brought] = field(default_factory=dict)


class Images:
    """The images of one engine.

    Args:
        docker: gives the client.
        budget: how many bytes the images that Proctor brings may take; None is no limit.
        folder: where it is written down what was brought.
        tell: is told each step of a pull.
    """

    def __init__(self, docker: Callable[[], Docker], *, budget: int | None, folder: Path, tell: Step) -> None:
        self._docker = docker
        self._budget = budget
        self._folder = folder
        self._tell = tell
        self._ledger: Path | None = None
        self._surveying = asyncio.Lock()
        self._places: dict[str, deque[int]] = {}
        self._waiting: dict[str, list[asyncio.Future[None]]] = {}
        self._brought: dict[str, Brought] = {}
        self._ours: dict[str, int] = {}
        self._others: set[str] = set()
        self._coming: dict[str, int] = {}
        self._going: dict[str, asyncio.Task[None]] = {}
        self._held: Counter[str] = Counter()
        self._stuck: set[str] = set()
        self._failed: dict[str, InfrastructureError] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def expect(self, images: Sequence[str]) -> None:
        """Tell which images work will need, in order, one for each piece of work. Replaces what was told before."""
        self._places = {}
        for place, image in enumerate(images):
            self._places.setdefault(image, deque()).append(place)
        self._spawn(self._begin())

    def finished(self, image: str) -> None:
        """One piece of the expected work with this image is over."""
        places = self._places.get(image)
        if places is None:
            return
        places.popleft()
        if not places:
            del self._places[image]
        self._go_on()

    def hold(self, image: str) -> Callable[[], None]:
        """Keep an image from being let go, until what is handed back is called."""
        self._held[image] += 1
        released = False

        def release() -> None:
            nonlocal released
            if not released:
                released = True
                self._held[image] -= 1
                self._go_on()

        return release

    async def describe(self, image: str) -> dict[str, Any]:
        """What the engine says of an image, which is pulled if it is not there.

        Raises:
            InfrastructureError: it cannot be had, or is larger than the whole budget.
        """
        release = self.hold(image)
        try:
            while True:
                if image in self._going:
                    await asyncio.wait({self._going[image]})
                known = await inspect(self._docker(), image)
                if known is not None:
                    self._used(image)
                    return known
                await self._brought_here(image)
        finally:
            release()

    async def built(self, made: Mapping[str, Any], bases: Sequence[str]) -> None:
        """An image was built on top of these. What it adds to one that we brought counts, and goes, with that one."""
        for image in bases:
            base = await inspect(self._docker(), image) if image in self._ours else None
            if base is None or not _stands_on(made, base):
                continue
            was = self._brought[image]
            added = max(0, int(made.get("Size", 0)) - int(base.get("Size", 0)))
            grown = Brought(id=was.id, size=was.size + added, used_at=time.time())
            self._brought[image], self._ours[image] = grown, grown.size
            await asyncio.to_thread(self._write, {image: grown}, ())
        self._go_on()

    async def close(self) -> None:
        """Stop pulling, and write down what was used when."""
        tasks, self._places = self._tasks, {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._ledger is not None and self._brought:
            await asyncio.to_thread(self._write, dict(self._brought), ())

    async def _brought_here(self, image: str) -> None:
        """Wait for the pull of an image that is not there."""
        await self._survey()
        self._ours.pop(image, None)
        self._others.discard(image)
        self._failed.pop(image, None)
        arrival = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(image, []).append(arrival)
        try:
            self._go_on()
            await arrival
        finally:
            waiting = self._waiting.get(image, [])
            if arrival in waiting:
                waiting.remove(arrival)
            if not waiting:
                self._waiting.pop(image, None)

    async def _begin(self) -> None:
        try:
            await self._survey()
        except InfrastructureError:
            return  # whoever needs a room will be told
        self._go_on()

    async def _survey(self) -> None:
        """See, once, what is on the engine, and what of it we brought."""
        async with self._surveying:
            if self._ledger is not None:
                return
            docker = self._docker()
            with engine_errors("list its images"):
                engine = str((await docker.system.info()).get("ID", ""))
                listed = await docker.images.list()
            ids = {_normal(name): str(one["Id"]) for one in listed for name in _names(one)}
            ledger = self._folder / f"{re.sub(r'[^A-Za-z0-9]', '', engine) or 'engine'}.json"
            known = await asyncio.to_thread(_read, ledger)
            there = {name: was for name, was in known.items() if ids.get(_normal(name)) == was.id}
            for name, was in sorted(there.items(), key=lambda item: item[1].used_at):
                self._brought[name] = was
                self._ours[name] = was.size
            self._others |= {name for name in self._places if _normal(name) in ids} - set(self._ours)
            self._ledger = ledger

    def _go_on(self) -> None:
        """Do what can be done now."""
        if self._ledger is None:
            return
        while (step := next_step(self._shelf())) is not None:
            match step:
                case Pull(image, reserve):
                    self._coming[image] = reserve
                    self._spawn(self._pull(image))
                case Evict(image):
                    self._going[image] = self._spawn(self._evict(image))

    def _shelf(self) -> Shelf:
        return Shelf(
            budget=self._budget,
            asked=tuple(self._waiting),
            plan=sorted(self._places, key=lambda image: self._places[image][0]),
            ours=self._ours,
            others=self._others,
            coming=self._coming,
            going=self._going.keys(),
            in_use={image for image, count in self._held.items() if count} | self._stuck,
            failed=self._failed.keys(),
            largest=max((was.size for was in self._brought.values()), default=0),
        )

    async def _pull(self, image: str) -> None:
        try:
            await self._fetch(image)
        except InfrastructureError as error:
            self._failed[image] = error
        finally:
            self._coming.pop(image, None)
            trouble = self._failed.get(image)
            for arrival in self._waiting.get(image, ()):
                if arrival.done():
                    continue
                if trouble is None:
                    arrival.set_result(None)
                else:
                    arrival.set_exception(trouble)
        self._go_on()

    async def _fetch(self, image: str) -> None:
        docker = self._docker()
        if await inspect(docker, image) is not None:
            self._others.add(image)
            return
        try:
            await self._pull_whole(docker, image)
            described = await docker.images.inspect(image)
        except DockerError as error:
            raise InfrastructureError(
                f"the image {image} is not on this machine and cannot be pulled ({error.message})",
                fix="bring it here with `docker load`, or name another one for it with --image-map",
            ) from error
        was = Brought(id=str(described["Id"]), size=int(described.get("Size", 0)), used_at=time.time())
        if self._budget is not None and was.size > self._budget:
            await self._remove(image, was.id)
            raise InfrastructureError(
                f"the image {image} takes {was.size:,} bytes, more than all images may together",
                fix="allow more with --image-disk",
            )
        await asyncio.to_thread(self._write, {image: was}, ())
        self._brought[image], self._ours[image] = was, was.size

    async def _pull_whole(self, docker: Docker, image: str) -> None:
        """Pull an image. The library's own call leaves the connection open, and the pull going on, when cancelled."""
        query = docker._query("images/create", "POST", params={"fromImage": _normal(image)}, timeout=_NO_HURRY)  # noqa: SLF001
        async with query as response:
            try:
                async for step in json_stream_stream(response):
                    self._tell(image, step)
            finally:
                response.close()

    async def _evict(self, image: str) -> None:
        try:
            await self._remove(image, self._brought[image].id)
        except InfrastructureError:
            self._stuck.add(image)  # another process has a room on it, or the engine is in trouble
        finally:
            self._going.pop(image, None)
        self._go_on()

    async def _remove(self, image: str, identity: str) -> None:
        docker = self._docker()
        described = await inspect(docker, image)
        if described is not None and described["Id"] == identity:
            with engine_errors(f"remove the image {image}"):
                for name in (*await _built_on(docker, described), image):
                    try:
                        await docker.images.delete(name)
                    except DockerError as error:
                        if is_conflict(error) or not is_missing(error):
                            raise
        self._ours.pop(image, None)
        self._brought.pop(image, None)
        await asyncio.to_thread(self._write, {}, (image,))

    def _used(self, image: str) -> None:
        if image not in self._ours:
            if image not in self._coming:
                self._others.add(image)
            return
        self._ours[image] = self._ours.pop(image)
        self._brought[image] = Brought(id=self._brought[image].id, size=self._brought[image].size, used_at=time.time())

    def _write(self, add: Mapping[str, Brought], remove: Sequence[str]) -> None:
        """Change what is written down; other processes may be at it too."""
        if self._ledger is None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        with locked(self._folder / "lock", what="the list of images"):
            images = _read(self._ledger) | dict(add)
            kept = {name: was for name, was in images.items() if name not in remove}
            write_atomic(self._ledger, to_json(Ledger(images=kept)))

    def _spawn(self, work: Any) -> "asyncio.Task[None]":
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


async def _built_on(docker: Docker, base: Mapping[str, Any]) -> list[str]:
    """Images of our own making on top of another one: as long as they are there, its layers are."""
    listed = await docker.images.list(filters={"label": [f"{name}={value}" for name, value in BUILT.items()]})
    found = [await inspect(docker, str(one["Id"])) for one in listed]
    return [str(made["Id"]) for made in found if made is not None and _stands_on(made, base)]


def _stands_on(made: Mapping[str, Any], base: Mapping[str, Any]) -> bool:
    upper, lower = made["RootFS"].get("Layers") or [], base["RootFS"].get("Layers") or []
    return bool(lower) and made["Id"] != base["Id"] and upper[: len(lower)] == lower


async def inspect(docker: Docker, image: str) -> dict[str, Any] | None:
    """The engine's description of an image; None when it is not there."""
    try:
        with engine_errors(f"look for the image {image}"):
            return await docker.images.inspect(image)
    except InfrastructureError as error:
        if not is_missing(error.__cause__):
            raise
    return None


async def in_registry(docker: Docker, image: str) -> None:
    """See that an image can be had from its registry, without pulling it.

    Raises:
        InfrastructureError: it cannot.
    """
    fix = "bring it here with `docker load`, or name another one for it with --image-map"
    try:
        async with asyncio.timeout(_REGISTRY_SECONDS):
            await docker._query_json(f"distribution/{image}/json")  # noqa: SLF001 - the client has no name for it
    except DockerError as error:
        said = " ".join(str(error.message).split())
        raise InfrastructureError(
            f"the image {image} is not on this machine, nor to be had ({said})", fix=fix
        ) from error
    except TimeoutError as error:
        raise InfrastructureError(
            f"the image {image} is not on this machine, and its registry does not answer", fix=fix
        ) from error


def _read(ledger: Path) -> dict[str, Brought]:
    try:
        return dict(read_record(ledger, Ledger).images)
    except InvalidData:
        return {}  # there is none yet, or it is broken: then nothing is ours to remove


def _names(listed: Mapping[str, Any]) -> list[str]:
    return [*(listed.get("RepoTags") or ()), *(listed.get("RepoDigests") or ()), str(listed["Id"])]


def _normal(name: str) -> str:
    """The name under which an engine lists an image."""
    short = name.removeprefix("docker.io/").removeprefix("library/")
    return short if "@" in short or ":" in short.rpartition("/")[2] else f"{short}:latest"
