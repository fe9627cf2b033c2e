from .disk import FileDisk
from .errors import Damaged
from .store import Store

__all__ = ["Damaged", "FileDisk", "Store"]
