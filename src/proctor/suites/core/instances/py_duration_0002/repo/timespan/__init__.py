from .reading import parse
from .writing import render

__all__ = ["parse", "render"]
