"""Published results of benchmarks. They are shown beside our results and never mixed into them."""

from typing import Literal

from proctor.core.record import Record


class PublishedResult(Record):
    """One published result.

    Attributes:
        agent: the scaffold that drove the model.
        rate: the share resolved, between 0 and 1; None where the benchmark's score is something else.
        score: the benchmark's own score, where it is not a rate.
        tasks: how many tasks the result is over.
        date: as it was published, YYYY-MM or YYYY-MM-DD.
        source: where it can be read.
        resolved: the tasks that were resolved, where that was published.
        details: further published numbers, by name: a rate by category, mean tokens, mean steps, …
    """

    benchmark: str
    agent: str
    model: str
    date: str
    source: str
    split: str | None = None
    rate: float | None = None
    score: float | None = None
    tasks: int | None = None
    cost_usd: float | None = None
    note: str = ""
    resolved: tuple[str, ...] | None = None
    details: dict[str, float] | None = None
    schema_version: Literal["proctor.published@1"] = "proctor.published@1"
