"""Which image to pull next, and which to let go for it. Pure: the engine's work is in `images`.

A shelf has room for so many bytes. What is needed next is brought as early as there is room; what gives way is what
nobody will ask for any more, longest unused first, and then what is asked for last. An image that a room stands on,
or that is asked for before the one to be brought, never gives way; nor does one that somebody else brought.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

AHEAD: Final = 4


@dataclass(frozen=True, slots=True)
class Pull:
    """Bring this image; `reserve` is what it is taken to need."""

    image: str
    reserve: int


@dataclass(frozen=True, slots=True)
class Evict:
    """Remove this image."""

    image: str


@dataclass(frozen=True, slots=True)
class Shelf:
    """What is on the disk, on its way, and asked for.

    Attributes:
        budget: how many bytes our images may take; None is no limit, and then nothing is ever evicted.
        asked: images that somebody is waiting for, first come first served.
        plan: images in the order in which work will need them, each once.
        ours: images that we brought, least recently used first, with their sizes.
        others: images that were there without us; they are not counted, and never touched.
        coming: images being pulled, with what was reserved for them.
        going: images being removed; their bytes are not free yet.
        in_use: images that rooms stand on.
        failed: images that could not be had; they are tried again only for somebody who waits.
        largest: the size of the largest image seen so far; 0 when none was.
        at_once: how many pulls may run at a time, but for those that somebody waits for.
    """

    budget: int | None = None
    asked: Sequence[str] = ()
    plan: Sequence[str] = ()
    ours: Mapping[str, int] = field(default_factory=dict)
    others: AbstractSet[str] = frozenset()
    coming: Mapping[str, int] = field(default_factory=dict)
    going: AbstractSet[str] = frozenset()
    in_use: AbstractSet[str] = frozenset()
    failed: AbstractSet[str] = frozenset()
    largest: int = 0
    at_once: int = 2

    @property
    def taken(self) -> int:
        """Bytes on the disk, and bytes reserved for what is coming."""
        return sum(self.ours.values()) + sum(self.coming.values())


def next_step(shelf: Shelf) -> Pull | Evict | None:
    """What to do now; None when nothing can be done before something else ends.

    Ask again after every step, with the step counted in.
    """
    if shelf.budget is not None and shelf.taken > shelf.budget:
        return _relief(shelf)  # an image was larger than it was taken for
    order = tuple(dict.fromkeys((*shelf.asked, *shelf.plan)))
    ahead = 0
    for place, image in enumerate(order):
        wanted_now = image in shelf.asked
        if shelf.budget is None and not wanted_now:
            ahead += image not in shelf.in_use
            if ahead > AHEAD:
                return None
        if image in shelf.ours or image in shelf.others or image in shelf.coming:
            continue
        if not wanted_now and image in shelf.failed:
            continue
        if not wanted_now and len(shelf.coming) >= shelf.at_once:
            return None
        return _make_room(shelf, image, keep=order[: place + 1], order=order)
    return None


def _make_room(shelf: Shelf, image: str, *, keep: Sequence[str], order: Sequence[str]) -> Pull | Evict | None:
    reserve = _reserve(shelf)
    if shelf.budget is None or shelf.taken + reserve <= shelf.budget:
        return Pull(image, reserve)
    victims = _victims(shelf, keep, order)
    leaving = sum(shelf.ours.get(gone, 0) for gone in shelf.going)
    if shelf.taken - leaving + reserve <= shelf.budget:
        return None  # there will be room in a moment
    freed = leaving + sum(shelf.ours[victim] for victim in victims)
    if shelf.taken - freed + reserve > shelf.budget:
        return None  # it would not help
    return Evict(victims[0])


def _relief(shelf: Shelf) -> Evict | None:
    leaving = sum(shelf.ours.get(gone, 0) for gone in shelf.going)
    if shelf.budget is None or shelf.taken - leaving <= shelf.budget:
        return None
    order = tuple(dict.fromkeys((*shelf.asked, *shelf.plan)))
    victims = _victims(shelf, keep=shelf.asked, order=order)
    return Evict(victims[0]) if victims else None


def _reserve(shelf: Shelf) -> int:
    """What an image is taken to need before it is there: as much as the largest so far; at first, everything."""
    if shelf.budget is None:
        return shelf.largest
    return min(shelf.largest or shelf.budget, shelf.budget)


def _victims(shelf: Shelf, keep: Sequence[str], order: Sequence[str]) -> list[str]:
    """What may go, in the order in which it should."""
    free = [image for image in shelf.ours if image not in {*keep, *shelf.in_use, *shelf.going}]
    places = {image: place for place, image in enumerate(order)}
    unwanted = [image for image in free if image not in places]
    later = sorted((image for image in free if image in places), key=lambda image: -places[image])
    return unwanted + later
