"""Reports on stderr which images are being pulled or built, and their progress."""

import time
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from proctor.cli.output import log
from proctor.core.formatting import truncate_line

if TYPE_CHECKING:
    from proctor.environments.docker import PullProgress

_REPORT_INTERVAL_SECONDS: Final = 15.0
# The names in `proctor.environments.docker`, which is slow to import.
BUILDING: Final = "Building"
BUILT: Final = "Built"


class PullReporter:
    """Receives every step of every pull, and logs its start, now and then its progress, and its end.

    Of an image that is built, the progress is the step of its Dockerfile.
    """

    def __init__(self, log: Callable[[str], None] = log, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._layers: defaultdict[str, dict[str, tuple[int, int]]] = defaultdict(dict)
        self._started: dict[str, float] = {}
        self._last_reported: dict[str, float] = {}
        self._steps: dict[str, str] = {}

    def __call__(self, progress: "PullProgress") -> None:
        """Process one step."""
        image, now = progress.image, self._clock()
        if image not in self._last_reported:
            self._started[image] = self._last_reported[image] = now
            self._log(f"{'building the image of' if progress.status == BUILDING else 'pulling'} {image}")
        if progress.total and progress.status == "Downloading":
            self._layers[image][progress.layer] = (progress.current, progress.total)
        if progress.status == BUILDING and progress.layer.startswith("Step "):
            self._steps[image] = progress.layer
        built = progress.status == BUILT
        if built or progress.status.startswith("Status: "):
            seconds = now - self._started.pop(image)
            self._log(f"{'built the image of' if built else 'pulled'} {image} in {seconds:.0f} s")
            del self._last_reported[image]
            self._layers.pop(image, None)
            self._steps.pop(image, None)
        elif now - self._last_reported[image] >= _REPORT_INTERVAL_SECONDS and image in self._steps:
            self._last_reported[image] = now
            seconds, step = now - self._started[image], truncate_line(self._steps[image])
            self._log(f"building the image of {image}: {step}, {seconds:.0f} s so far")
        elif now - self._last_reported[image] >= _REPORT_INTERVAL_SECONDS and self._layers[image]:
            self._last_reported[image] = now
            there, whole = map(sum, zip(*self._layers[image].values(), strict=True))
            self._log(f"pulling {image}: {there / 1e6:,.0f} of {whole / 1e6:,.0f} MB, as far as is known")
