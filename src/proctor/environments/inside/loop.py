"""Who is called when a descriptor has something to say."""

import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class PollLoop:
    """Waits on descriptors and calls their handlers, one after the other, for ever."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._handlers: "dict[int, Callable[[int], None]]" = {}

    def register(self, descriptor: int, events: int, handler: "Callable[[int], None]") -> None:
        """Call `handler` with the events that happen on this descriptor, from now on these and no others."""
        self._poll.register(descriptor, events)
        self._handlers[descriptor] = handler

    def unregister(self, descriptor: int) -> None:
        """Wait for nothing on this descriptor."""
        if self._handlers.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def run(self) -> None:
        """Never returns."""
        while True:
            for descriptor, events in self._poll.poll():
                handler = self._handlers.get(descriptor)
                if handler is not None:  # forgotten by a handler that ran before it
                    handler(events)
