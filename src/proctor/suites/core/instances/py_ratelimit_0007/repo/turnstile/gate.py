"""Buckets by key."""

import time

from .bucket import Bucket


def _milliseconds():
    return time.monotonic_ns() // 1_000_000


class Turnstile:
    def __init__(self, limit, period, clock=_milliseconds):
        for name, value in (("limit", limit), ("period", period)):
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be a positive whole number, not {value!r}")
        self.limit = limit
        self.period = period
        self._clock = clock
        self._buckets = {}

    def admit(self, key, cost=1):
        self._check(cost)
        now = self._clock()
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = Bucket(self.limit, self.period, now)
        return bucket.take(cost, now)

    def retry_after(self, key, cost=1):
        self._check(cost)
        bucket = self._buckets.get(key)
        return 0 if bucket is None else bucket.wait(cost, self._clock())

    def sweep(self):
        now = self._clock()
        full = [key for key, bucket in self._buckets.items() if bucket.is_full(now)]
        for key in full:
            del self._buckets[key]
        return len(full)

    def __len__(self):
        return len(self._buckets)

    def _check(self, cost):
        if not 0 <= cost <= self.limit:
            raise ValueError(f"cost must be between 0 and {self.limit}, not {cost!r}")
