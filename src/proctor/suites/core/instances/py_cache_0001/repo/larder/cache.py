"""A least-recently-used cache bounded by weight."""

from collections import OrderedDict

_MISSING = object()


def _one(value):
    return 1


class Larder:
    """Maps keys to values while the sum of their weights stays within `capacity`.

    `weigh` gives the weight of a value; without it every entry weighs 1.
    """

    def __init__(self, capacity, weigh=None, on_evict=None):
        if capacity < 0:
            raise ValueError("capacity must not be negative")
        self._capacity = capacity
        self._weigh = weigh or _one
        self._on_evict = on_evict
        self._entries = OrderedDict()  # key -> (value, weight), least recently used first
        self._weight = 0

    @property
    def capacity(self):
        return self._capacity

    @property
    def weight(self):
        """The sum of the weights of all entries."""
        return self._weight

    def __len__(self):
        return len(self._entries)

    def __contains__(self, key):
        return key in self._entries

    def __iter__(self):
        """The keys, least recently used first."""
        return iter(list(self._entries))

    def get(self, key, default=None):
        entry = self._entries.get(key, _MISSING)
        if entry is _MISSING:
            return default
        self._entries.move_to_end(key)
        return entry[0]

    def peek(self, key, default=None):
        """Like `get`, but does not count as use."""
        entry = self._entries.get(key, _MISSING)
        return default if entry is _MISSING else entry[0]

    def put(self, key, value):
        """Stores the value; returns whether it was taken."""
        weight = self._weigh(value)
        if weight < 0:
            raise ValueError("weigh() must not be negative")
        if weight > self._capacity:
            return False
        self._make_room(weight)
        self._entries[key] = (value, weight)
        self._weight += weight
        return True

    def pop(self, key, default=None):
        entry = self._entries.pop(key, None)
        if entry is None:
            return default
        self._weight -= entry[1]
        return entry[0]

    def resize(self, capacity):
        """Changes the capacity, pushing entries out if it shrinks."""
        if capacity < 0:
            raise ValueError("capacity must not be negative")
        self._capacity = capacity
        self._make_room(0)

    def clear(self):
        self._entries.clear()
        self._weight = 0

    def _make_room(self, weight):
        while self._entries and self._weight + weight > self._capacity:
            key, (value, freed) = self._entries.popitem(last=False)
            self._weight -= freed
            if self._on_evict is not None:
                self._on_evict(key, value)
