"""The machine that something took place on."""

from proctor.core.record import Record


class Machine(Record):
    """Where a run or an attempt took place, as far as it can change results.

    Attributes:
        processor: the model of its processor; empty where that is not known, as `kernel` is in older records.
        gpus: how many GPUs its environments can be given.
    """

    platform: str
    python: str
    cpus: int
    memory_mb: int
    processor: str = ""
    kernel: str = ""
    gpus: int = 0
