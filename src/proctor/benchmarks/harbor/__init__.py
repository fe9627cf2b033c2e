"""Harbor's task format, and any set of tasks that is written in it.

`read_task` reads a task's folder; `HarborBenchmark` runs and grades tasks; `judge` is the rule from what a verifier
left to the verdict. Data sets in this format, such as Terminal-Bench, are thin packages over this one.
docs/benchmarks/harbor.md says where and why this differs from Harbor.
"""

from proctor.benchmarks.harbor.benchmark import HarborBenchmark
from proctor.benchmarks.harbor.source import SOURCE, harbor_suite
from proctor.benchmarks.harbor.task import HarborStep, HarborTask
from proctor.benchmarks.harbor.task_format import package_digest, read_task
from proctor.benchmarks.harbor.verdict_rule import HarborEvidence, judge

__all__ = [
    "SOURCE",
    "HarborBenchmark",
    "HarborEvidence",
    "HarborStep",
    "HarborTask",
    "harbor_suite",
    "judge",
    "package_digest",
    "read_task",
]
