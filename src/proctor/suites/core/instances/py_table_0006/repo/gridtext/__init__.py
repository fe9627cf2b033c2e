from .layout import table

__all__ = ["table"]
