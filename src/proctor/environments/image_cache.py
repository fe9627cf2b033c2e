"""Which image to pull next, and which to let go for it. Pure: the engine's work is in `images`.

The cache holds a number of bytes. What is needed next is pulled as early as there is space. Images that no future work
needs are evicted first, longest unused first, then the one that is needed last. An image that an environment uses, or
that is needed before the one to be pulled, is never evicted; nor is one that Proctor did not pull.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

PREFETCH_IMAGES: Final = 4


@dataclass(frozen=True, slots=True)
class PullImage:
    """Bring this image; `reserve` is what it is taken to need."""

    image: str
    reserve: int


@dataclass(frozen=True, slots=True)
class EvictImage:
    """Remove this image."""

    image: str


@dataclass(frozen=True, slots=True)
class ImageCacheState:
    """What is on the disk, on its way, and asked for.

    Attributes:
        budget: how many bytes our images may take; None is no limit, and then nothing is ever evicted.
        asked: images that somebody is waiting for, first come first served.
        plan: images in the order in which work will need them, each once.
        ours: images that we brought, least recently used first, with their sizes.
        others: images that were there without us; they are not counted, and never touched.
        coming: images being pulled, with what was reserved for them.
        going: images being removed; their bytes are not free yet.
        in_use: images that environments stand on.
        failed: images that could not be had; they are tried again only for somebody who waits.
        largest: the size of the largest image seen so far; 0 when none was.
        at_once: how many pulls may run at a time, but for those that somebody waits for.
    """

    budget: int | None = None
    requested: Sequence[str] = ()
    planned: Sequence[str] = ()
    managed: Mapping[str, int] = field(default_factory=dict)
    unmanaged: AbstractSet[str] = frozenset()
    pulling: Mapping[str, int] = field(default_factory=dict)
    evicting: AbstractSet[str] = frozenset()
    in_use: AbstractSet[str] = frozenset()
    failed: AbstractSet[str] = frozenset()
    largest: int = 0
    max_pulls: int = 2

    @property
    def used_bytes(self) -> int:
        """Bytes on the disk, and bytes reserved for what is coming."""
        return sum(self.managed.values()) + sum(self.pulling.values())


def next_action(state: ImageCacheState) -> PullImage | EvictImage | None:
    """What to do now; None when nothing can be done before something else ends.

    Ask again after every step, with the step counted in.
    """
    if state.budget is not None and state.used_bytes > state.budget:
        return _evict_over_budget(state)  # an image was larger than it was taken for
    order = tuple(dict.fromkeys((*state.requested, *state.planned)))
    ahead = 0
    for place, image in enumerate(order):
        wanted_now = image in state.requested
        if state.budget is None and not wanted_now:
            ahead += image not in state.in_use
            if ahead > PREFETCH_IMAGES:
                return None
        if image in state.managed or image in state.unmanaged or image in state.pulling:
            continue
        if not wanted_now and image in state.failed:
            continue
        if not wanted_now and len(state.pulling) >= state.max_pulls:
            return None
        return _pull_or_evict(state, image, keep=order[: place + 1], order=order)
    return None


def _pull_or_evict(
    state: ImageCacheState, image: str, *, keep: Sequence[str], order: Sequence[str]
) -> PullImage | EvictImage | None:
    reserve = _reserved_bytes(state)
    if state.budget is None or state.used_bytes + reserve <= state.budget:
        return PullImage(image, reserve)
    victims = _eviction_order(state, keep, order)
    leaving = sum(state.managed.get(gone, 0) for gone in state.evicting)
    if state.used_bytes - leaving + reserve <= state.budget:
        return None  # there will be environment in a moment
    freed = leaving + sum(state.managed[victim] for victim in victims)
    if state.used_bytes - freed + reserve > state.budget:
        return None  # it would not help
    return EvictImage(victims[0])


def _evict_over_budget(state: ImageCacheState) -> EvictImage | None:
    leaving = sum(state.managed.get(gone, 0) for gone in state.evicting)
    if state.budget is None or state.used_bytes - leaving <= state.budget:
        return None
    order = tuple(dict.fromkeys((*state.requested, *state.planned)))
    victims = _eviction_order(state, keep=state.requested, order=order)
    return EvictImage(victims[0]) if victims else None


def _reserved_bytes(state: ImageCacheState) -> int:
    """What an image is taken to need before it is there: as much as the largest so far; at first, everything."""
    if state.budget is None:
        return state.largest
    return min(state.largest or state.budget, state.budget)


def _eviction_order(state: ImageCacheState, keep: Sequence[str], order: Sequence[str]) -> list[str]:
    """What may go, in the order in which it should."""
    free = [image for image in state.managed if image not in {*keep, *state.in_use, *state.evicting}]
    places = {image: place for place, image in enumerate(order)}
    unwanted = [image for image in free if image not in places]
    later = sorted((image for image in free if image in places), key=lambda image: -places[image])
    return unwanted + later
