"""Says on stderr which images are being pulled or built, and how far each is."""

import time
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from proctor.cli.output import note

if TYPE_CHECKING:
    from proctor.environments.docker import PullProgress

_EVERY_SECONDS: Final = 15.0
# As `proctor.environments.docker` calls them, which is slow to import.
BUILDING: Final = "Building"
BUILT: Final = "Built"


class Pulls:
    """Hears every step of every pull, and tells when one begins, how far it is now and then, and when it is done.

    Of an image that is built, it tells when that begins and when it is done.
    """

    def __init__(self, tell: Callable[[str], None] = note, clock: Callable[[], float] = time.monotonic) -> None:
        self._tell = tell
        self._clock = clock
        self._layers: defaultdict[str, dict[str, tuple[int, int]]] = defaultdict(dict)
        self._began: dict[str, float] = {}
        self._told: dict[str, float] = {}

    def __call__(self, step: "PullProgress") -> None:
        """Take in one step."""
        image, now = step.image, self._clock()
        if image not in self._told:
            self._began[image] = self._told[image] = now
            self._tell(f"{'building the image of' if step.status == BUILDING else 'pulling'} {image}")
        if step.total and step.status == "Downloading":
            self._layers[image][step.layer] = (step.current, step.total)
        built = step.status == BUILT
        if built or step.status.startswith("Status: "):
            seconds = now - self._began.pop(image)
            self._tell(f"{'built the image of' if built else 'pulled'} {image} in {seconds:.0f} s")
            del self._told[image]
            self._layers.pop(image, None)
        elif now - self._told[image] >= _EVERY_SECONDS and self._layers[image]:
            self._told[image] = now
            there, whole = map(sum, zip(*self._layers[image].values(), strict=True))
            self._tell(f"pulling {image}: {there / 1e6:,.0f} of {whole / 1e6:,.0f} MB, as far as is known")
