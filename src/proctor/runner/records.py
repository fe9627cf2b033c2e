"""What the pipeline works on: the slots of a run. What is kept of their answers is the results' business."""

from proctor.core.record import Record
from proctor.results.answers import ANSWER, GRADED, SUBMISSION, Answer, Graded

__all__ = ["ANSWER", "GRADED", "SUBMISSION", "Answer", "Graded", "Slot"]


class Slot(Record):
    """One wanted answer: a task, and which of several samples of it."""

    task_id: str
    sample: int
