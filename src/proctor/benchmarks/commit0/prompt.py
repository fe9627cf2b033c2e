"""What the agent is asked to do."""

from proctor.benchmarks.commit0.library import SPECIFICATION
from proctor.benchmarks.commit0.rows import Commit0Row


def instruction(row: Commit0Row) -> str:
    """The task in words: the benchmark's own, for an agent that finds its way in a repository by itself."""
    return f"""\
This repository holds the skeleton of the Python library `{row.name}`. Functions in `{row.src_dir}` have lost their \
bodies: what is left is the signature, the docstring and `pass`. Some that had no docstring are gone altogether.

Implement the library. Complete every function that is not implemented, and add whatever is missing, so that the unit \
tests in `{row.test.test_dir}` pass. Do not rename functions or classes that are there, and keep to the way the code \
is formatted. The specification of the library is in `{SPECIFICATION}` at the root of the repository, if it is there \
(compressed PDF).

The tests are run with `{row.test.test_cmd} {row.test.test_dir}`, by Python {row.setup.python}, with everything \
installed that they need. The tests themselves are put back as they are now before your work is graded. The original \
library is not available, and there is no network.
"""
