"""``proctor bench``: benchmarks, their tasks, and what agents make of them."""

from typing import Final

from proctor.cli.lazy import LazyGroup

COMMANDS: Final = {
    "list": ("proctor.cli.bench.list", "Benchmarks, or the tasks of one."),
    "validate": ("proctor.cli.bench.validate", "Prove a benchmark on this machine before you spend."),
    "eval": ("proctor.cli.bench.eval", "Grade predictions, or the oracle."),
    "score": ("proctor.cli.bench.score", "The key figures of a report."),
}

command = LazyGroup(COMMANDS, help="Benchmarks, their tasks, and what agents make of them.")
