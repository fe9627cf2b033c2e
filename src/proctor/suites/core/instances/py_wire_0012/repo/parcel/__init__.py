from .errors import DecodeError, EncodeError
from .schema import UNKNOWN, Field, Schema

__all__ = ["DecodeError", "EncodeError", "Field", "Schema", "UNKNOWN"]
