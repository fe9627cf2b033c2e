from .diff import changes
from .merge import merge

__all__ = ["changes", "merge"]
