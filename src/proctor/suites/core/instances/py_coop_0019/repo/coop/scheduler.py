import heapq
from collections import deque

from .errors import Cancelled, Deadlock
from .operations import Operation, Outcome, Wait


class Task:
    def __init__(self, generator, name):
        self.name = name
        self.generator = generator
        self.outcome = None  # set when it is finished
        self.joiners = []

    @property
    def finished(self):
        return self.outcome is not None

    @property
    def result(self):
        return self.outcome.value if self.finished else None

    @property
    def error(self):
        return self.outcome.error if self.finished else None


class Scheduler:
    def __init__(self):
        self.now = 0
        self._ready = deque()  # (task, outcome of what it waited for; None at its start)
        self._alarms = []  # heap of (time, number, wait)
        self._numbers = 0
        self._tasks = []

    def spawn(self, generator, name=None):
        task = Task(generator, name or f"task-{len(self._tasks) + 1}")
        self._tasks.append(task)
        self._ready.append((task, None))
        return task

    def cancel(self, task):
        if not task.finished:
            self.ready(task, Outcome(error=Cancelled()))

    def run(self):
        while True:
            while self._ready:
                self._turn(*self._ready.popleft())
            if not self._ring():
                break
        left = [task.name for task in self._tasks if not task.finished]
        if left:
            raise Deadlock(left)

    def ready(self, task, outcome):
        self._ready.append((task, outcome))

    def at(self, time, wait):
        self._numbers += 1
        heapq.heappush(self._alarms, (time, self._numbers, wait))

    def _ring(self):
        """Moves the clock to the next alarm; says whether there was one."""
        if not self._alarms:
            return False
        self.now, _, wait = heapq.heappop(self._alarms)
        wait.complete(Outcome())
        return True

    def _turn(self, task, outcome):
        if task.finished:
            return
        outcome = outcome or Outcome()
        try:
            if outcome.error is not None:
                operation = task.generator.throw(outcome.error)
            else:
                operation = task.generator.send(outcome.value)
        except StopIteration as stop:
            return self._finish(task, Outcome(stop.value))
        except Exception as error:
            return self._finish(task, Outcome(error=error))
        if not isinstance(operation, Operation):
            return self.ready(task, Outcome(error=TypeError(f"not an operation: {operation!r}")))
        outcome = operation.attempt(self)
        if outcome is None:
            operation.enlist(self, Wait(self, task))
        else:
            self.ready(task, outcome)

    def _finish(self, task, outcome):
        task.outcome = outcome
        for wait in task.joiners:
            wait.complete(outcome)
