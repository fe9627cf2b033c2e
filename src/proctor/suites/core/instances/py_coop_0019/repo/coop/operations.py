"""What tasks can yield.

An operation has two methods. `attempt` does it right away if that is possible, and returns an outcome or None. Otherwise
`enlist` leaves word that the task is to be woken up later.
"""


class Outcome:
    __slots__ = ("value", "error")

    def __init__(self, value=None, error=None):
        self.value = value
        self.error = error


class Wait:
    """A task that waits for an operation."""

    __slots__ = ("_scheduler", "task")

    def __init__(self, scheduler, task):
        self._scheduler = scheduler
        self.task = task

    def complete(self, outcome):
        """Wakes the task: the operation has been done."""
        self._scheduler.ready(self.task, outcome)


class Operation:
    pass


class sleep(Operation):
    def __init__(self, duration):
        if duration < 0:
            raise ValueError("cannot sleep backwards")
        self._duration = duration

    def attempt(self, scheduler):
        return None

    def enlist(self, scheduler, wait):
        scheduler.at(scheduler.now + self._duration, wait)


class join(Operation):
    def __init__(self, task):
        self._task = task

    def attempt(self, scheduler):
        return self._task.outcome

    def enlist(self, scheduler, wait):
        self._task.joiners.append(wait)


class select(Operation):
    def __init__(self, *operations):
        if not operations:
            raise ValueError("nothing to select from")
        self._operations = operations

    def attempt(self, scheduler):
        for index, operation in enumerate(self._operations):
            outcome = operation.attempt(scheduler)
            if outcome is not None:
                return _framed(index, outcome)
        return None

    def enlist(self, scheduler, wait):
        for index, operation in enumerate(self._operations):
            operation.enlist(scheduler, _Branch(wait, index))


class _Branch:
    """One of the operations of a `select`."""

    __slots__ = ("task", "_wait", "_index")

    def __init__(self, wait, index):
        self.task = wait.task
        self._wait = wait
        self._index = index

    def complete(self, outcome):
        self._wait.complete(_framed(self._index, outcome))


def _framed(index, outcome):
    return outcome if outcome.error is not None else Outcome((index, outcome.value))
