from .sheet import Sheet
from .values import Error

__all__ = ["Error", "Sheet"]
