"""The SWE family: SWE-bench (Verified, Lite, full, Multilingual), SWE-bench Pro, SWE-EVO and FeatureBench.

Four benchmarks of patches, with four official rules. `rows` reads their data, `tasks` decides what an agent sees of it,
an `OfficialGrader` (`swe_bench_grader`, `pro_grader`, …) does what an official grader does, an `InstanceSetup` sets up
one kind of environment, and `grade` gives both verdicts: the official one, and ours, which is harder to fool.
"""

from proctor.benchmarks.swe.benchmark import SweBenchmark
from proctor.benchmarks.swe.instance_setup import InstanceSetup, InstanceSetupFactory, StartState
from proctor.benchmarks.swe.sources import ace_bench, swe_bench_pro, swe_bench_verified, swe_evo

__all__ = [
    "InstanceSetup",
    "InstanceSetupFactory",
    "StartState",
    "SweBenchmark",
    "ace_bench",
    "swe_bench_pro",
    "swe_bench_verified",
    "swe_evo",
]
