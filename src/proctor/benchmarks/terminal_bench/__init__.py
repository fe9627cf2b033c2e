"""Terminal-Bench 2.0, 2.1 and 1.0: data sets in Harbor's task format.

`convert` makes a task of that format from a folder of the old one. `leaderboard` scores runs as the official
leaderboard does: `bench export` writes it. docs/benchmarks/terminal_bench.md is about the data sets,
docs/benchmarks/harbor.md about how tasks are run and verified.
"""

from proctor.benchmarks.terminal_bench.convert import convert
from proctor.benchmarks.terminal_bench.source import SOURCE

__all__ = ["SOURCE", "convert"]
