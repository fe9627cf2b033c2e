"""One bucket of tokens."""


class Bucket:
    """Holds up to `limit` tokens and gains `limit` of them per `period`."""

    __slots__ = ("limit", "period", "level", "seen")

    def __init__(self, limit, period, now):
        self.limit = limit
        self.period = period
        self.level = limit
        self.seen = now

    def refill(self, now):
        self.level = min(self.limit, self.level + (now - self.seen) * self.limit // self.period)
        self.seen = now

    def take(self, cost, now):
        self.refill(now)
        if self.level < cost:
            return False
        self.level -= cost
        return True

    def wait(self, cost, now):
        """Milliseconds from now until `cost` tokens are there."""
        self.refill(now)
        missing = cost - self.level
        if missing <= 0:
            return 0
        return missing * self.period // self.limit

    def is_full(self, now):
        self.refill(now)
        return self.level == self.limit
