from .spanset import SpanSet


class Room:
    """A room that is open for some minutes of the day and can be booked while it is free."""

    def __init__(self, opening=((8 * 60, 18 * 60),)):
        self._open = SpanSet(opening)
        self._booked = SpanSet()

    def free(self):
        return (self._open - self._booked).spans()

    def book(self, start, end):
        """Books the room if it is open and free for the whole time; says whether it did."""
        if end <= start:
            raise ValueError("a booking takes at least a minute")
        if not (self._open - self._booked).covers(start, end):
            return False
        self._booked.add(start, end)
        return True

    def cancel(self, start, end):
        self._booked.discard(start, end)

    def close(self, start, end):
        """Shuts the room for a while; bookings in that time are void."""
        self._open.discard(start, end)
        self._booked.discard(start, end)
