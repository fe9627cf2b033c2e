from .metrics import Counter, Histogram, counter, histogram, reset
from .page import render
from .timing import timed

__all__ = ["Counter", "Histogram", "counter", "histogram", "render", "reset", "timed"]
