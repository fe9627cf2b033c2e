class NotFound(Exception):
    """No pattern matches the path."""


class MethodNotAllowed(Exception):
    """The path is known, but not for this method."""

    def __init__(self, allowed):
        super().__init__(", ".join(allowed))
        self.allowed = allowed
