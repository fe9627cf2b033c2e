class DecodeError(ValueError):
    """The bytes are not a message."""


class EncodeError(ValueError):
    """The value does not fit the schema."""
