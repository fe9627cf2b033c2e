from .errors import MethodNotAllowed, NotFound
from .router import Match, Router

__all__ = ["Match", "MethodNotAllowed", "NotFound", "Router"]
