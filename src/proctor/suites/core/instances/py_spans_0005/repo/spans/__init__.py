from .booking import Room
from .spanset import SpanSet

__all__ = ["Room", "SpanSet"]
