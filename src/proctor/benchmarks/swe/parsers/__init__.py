"""What test programs print, read back: the status of each test, in the official graders' own words.

One parser for each name that a data set gives in `log_parser`. The ids and words are theirs, byte for byte, since the
labels were made with the same parsers. Formats are as SWE-bench 5 reads them; `LEGACY` holds those of its version 4,
on which SWE-EVO's labels rest; FeatureBench's parsers go by the project.
"""

from proctor.benchmarks.swe.parsers.feature_bench import find_feature_parser
from proctor.benchmarks.swe.parsers.pytest_lines import Parser, Statuses
from proctor.benchmarks.swe.parsers.registry import LEGACY, PARSERS, find_parser

__all__ = ["LEGACY", "PARSERS", "Parser", "Statuses", "find_feature_parser", "find_parser"]
