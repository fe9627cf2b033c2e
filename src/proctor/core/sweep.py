"""A sweep: several runs of one benchmark that are made together, to be compared."""

from typing import Literal

from proctor.core.record import Record
from proctor.core.run import RunConfig


class SweepRun(Record):
    """One configuration of a sweep, by the name that it has there."""

    label: str
    config: RunConfig


class Sweep(Record):
    """A sweep as it was started. Its runs are stored as runs of their own.

    Attributes:
        file: the sweep's file, as it was when the sweep was started.
        reference: the label of the run that the others are compared with.
        rule: the decision rule, written down before there was a result to decide on; None: none was.
    """

    sweep_id: str
    name: str
    benchmark: str
    file: str
    runs: tuple[SweepRun, ...]
    reference: str
    rule: str | None
    created_at: str
    schema_version: Literal["proctor.sweep@2"] = "proctor.sweep@2"
