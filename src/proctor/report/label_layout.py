"""Where the labels of points stand in a chart, such that none covers another, a point, or the axes."""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

_LETTER: Final = 7.5  # pixels: at most, on average, for a font of 12 pixels
_HALF_LINE: Final = 8
_HALF_POINT: Final = 6
_BESIDE: Final = 8
# Up and down beside the point, the nearest first; farther away, nobody would know whose label it is.
_OFFSETS: Final = (-9, 10, 0, -25, 26, -41, 42)


class Box(NamedTuple):
    """A rectangle, in pixels."""

    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: "Box") -> bool:
        """Whether the two have something in common."""
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


class LabelPlace(NamedTuple):
    """Where a label stands, from its point: `dx` and `dy` pixels away, on the side that `align` does not name."""

    dx: int
    dy: int
    align: Literal["left", "right"]


def place_labels(
    points: Sequence[tuple[float, float]], labels: Sequence[str], *, width: float, height: float
) -> list[LabelPlace | None]:
    """A place for the label of each point, in the order of the points; None where there is none, or no label.

    Labels that come first are placed first.
    """
    taken = [Box(x - _HALF_POINT, y - _HALF_POINT, x + _HALF_POINT, y + _HALF_POINT) for x, y in points]
    places: list[LabelPlace | None] = []
    for (x, y), label in zip(points, labels, strict=True):
        found = None
        for place, box in _candidates(x, y, len(label) * _LETTER) if label else ():
            inside = box.left >= 0 and box.right <= width and box.top >= 0 and box.bottom <= height
            if inside and not any(box.overlaps(other) for other in taken):
                found = place
                taken.append(box)
                break
        places.append(found)
    return places


def _candidates(x: float, y: float, wide: float) -> list[tuple[LabelPlace, Box]]:
    found = []
    for dy in _OFFSETS:
        top, bottom = y + dy - _HALF_LINE, y + dy + _HALF_LINE
        right = Box(x + _BESIDE, top, x + _BESIDE + wide, bottom)
        left = Box(x - _BESIDE - wide, top, x - _BESIDE, bottom)
        found += [(LabelPlace(_BESIDE, dy, "left"), right), (LabelPlace(-_BESIDE, dy, "right"), left)]
    return found
