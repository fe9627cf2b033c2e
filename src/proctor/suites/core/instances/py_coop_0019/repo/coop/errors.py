class Closed(Exception):
    """The channel is closed."""


class Cancelled(Exception):
    """The task was cancelled."""


class Deadlock(Exception):
    """Tasks are left that nothing can wake up."""

    def __init__(self, names):
        super().__init__("waiting for ever: " + ", ".join(names))
        self.names = names
