"""What the pipeline works on: the slots of a run. What is kept of their answers is the results' business."""

from proctor.core.record import Record
from proctor.results.attempt_record import ATTEMPT_FILE, GRADING_FILE, SUBMISSION_FILES, AttemptRecord, GradingRecord

__all__ = ["ATTEMPT_FILE", "GRADING_FILE", "SUBMISSION_FILES", "AttemptRecord", "GradingRecord", "Trial"]


class Trial(Record):
    """One wanted answer: a task, and which of several samples of it."""

    task_id: str
    number: int
