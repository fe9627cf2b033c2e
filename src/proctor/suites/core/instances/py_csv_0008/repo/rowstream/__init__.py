from .errors import FormatError
from .reader import Reader
from .tools import records, rows

__all__ = ["FormatError", "Reader", "records", "rows"]
