"""SetupBench: 93 machines to be set up, each graded by one command in a fresh shell on the machine itself.

`SOURCE` is what the entry point names; `judge` is the rule, pure, from what the grader saw to the verdict.
docs/benchmarks/setupbench.md says where its own grader is wrong, and what is done about it.
"""

from proctor.benchmarks.setupbench.benchmark import SetupBench
from proctor.benchmarks.setupbench.rows import SetupBenchTask, read_tasks
from proctor.benchmarks.setupbench.source import SOURCE
from proctor.benchmarks.setupbench.verdict_rule import SetupBenchEvidence, judge

__all__ = ["SOURCE", "SetupBench", "SetupBenchEvidence", "SetupBenchTask", "judge", "read_tasks"]
