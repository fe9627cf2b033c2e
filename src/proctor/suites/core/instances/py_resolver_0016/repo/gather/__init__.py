from .index import Index
from .ranges import Range
from .resolver import Conflict, resolve
from .versions import Version

__all__ = ["Conflict", "Index", "Range", "Version", "resolve"]
