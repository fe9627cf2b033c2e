from .environment import Environment
from .errors import TemplateError

__all__ = ["Environment", "TemplateError"]
