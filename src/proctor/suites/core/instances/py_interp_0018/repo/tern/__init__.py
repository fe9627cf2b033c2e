from .errors import TernError
from .interpreter import Interpreter

__all__ = ["Interpreter", "TernError"]
