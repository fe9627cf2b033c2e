from collections import deque

from .errors import Closed
from .operations import Operation, Outcome


class Channel:
    def __init__(self, capacity=0):
        self._capacity = capacity
        self._buffer = deque()
        self._senders = deque()  # (wait, value)
        self._receivers = deque()
        self.closed = False

    def send(self, value):
        return _Send(self, value)

    def receive(self):
        return _Receive(self)

    def close(self):
        self.closed = True

    def __len__(self):
        """How many values are in the buffer."""
        return len(self._buffer)


class _Send(Operation):
    def __init__(self, channel, value):
        self._channel = channel
        self._value = value

    def attempt(self, scheduler):
        channel = self._channel
        if channel.closed:
            return Outcome(error=Closed())
        if channel._receivers:
            channel._receivers.popleft().complete(Outcome(self._value))
        elif len(channel._buffer) < channel._capacity:
            channel._buffer.append(self._value)
        else:
            return None
        return Outcome()

    def enlist(self, scheduler, wait):
        self._channel._senders.append((wait, self._value))


class _Receive(Operation):
    def __init__(self, channel):
        self._channel = channel

    def attempt(self, scheduler):
        channel = self._channel
        if channel._buffer:
            return Outcome(channel._buffer.popleft())
        if channel._senders:
            wait, value = channel._senders.popleft()
            wait.complete(Outcome())
            return Outcome(value)
        return Outcome(error=Closed()) if channel.closed else None

    def enlist(self, scheduler, wait):
        self._channel._receivers.append(wait)
