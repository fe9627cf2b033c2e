"""Terminal-Bench 2.0, 2.1 and 1.0, and whatever else is written in Harbor's task format.

`read_task` reads a task folder, `convert` makes one from a folder of the old format, `judge` is the rule from what the
verifier left to the verdict. `leaderboard` scores runs as the official leaderboard does: `bench export` writes it.
docs/benchmarks/terminal_bench.md says where and why this differs from Harbor.
"""

from proctor.benchmarks.terminal_bench.benchmark import TerminalBench
from proctor.benchmarks.terminal_bench.convert import convert
from proctor.benchmarks.terminal_bench.harbor_task import HarborTask, package_digest, read_task
from proctor.benchmarks.terminal_bench.source import SOURCE
from proctor.benchmarks.terminal_bench.verdict_rule import TerminalBenchEvidence, judge

__all__ = [
    "SOURCE",
    "HarborTask",
    "TerminalBench",
    "TerminalBenchEvidence",
    "convert",
    "judge",
    "package_digest",
    "read_task",
]
