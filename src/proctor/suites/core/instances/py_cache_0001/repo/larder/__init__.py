from .cache import Larder

__all__ = ["Larder"]
