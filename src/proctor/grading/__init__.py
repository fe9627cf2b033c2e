"""Grading: from running tests to results that a hostile program cannot fake, and from results to a verdict.

`run_tests` runs a `TestPlan` in a room, `run_tests_apart` in one that it makes for it; both give a `TestRun`.
`resolve` judges runs before and after a submission, `validate` judges a task; `audit_diff` reads a submission for what
smells; `is_protected` tells which of its paths are put back before the tests run. Everything but the two is pure.
docs/grading.md says what each format guarantees.
"""

from proctor.grading.audit import Change, Code, audit, audit_diff, audit_trees, sightings, tampering
from proctor.grading.outcome import Results, Sight, TestRun, Trouble, Unreadable
from proctor.grading.plan import ConfigFile, TestFormat, TestPlan, pytest_config
from proctor.grading.protect import MACHINERY, is_protected, protected_paths
from proctor.grading.reading import EXIT_CODE_TEST
from proctor.grading.resolve import Expectation, Resolution, baseline_trouble, flipped, resolve
from proctor.grading.running import run_tests, run_tests_apart
from proctor.grading.validation import Problem, ProblemCode, Validation, validate

__all__ = [
    "EXIT_CODE_TEST",
    "MACHINERY",
    "Change",
    "Code",
    "ConfigFile",
    "Expectation",
    "Problem",
    "ProblemCode",
    "Resolution",
    "Results",
    "Sight",
    "TestFormat",
    "TestPlan",
    "TestRun",
    "Trouble",
    "Unreadable",
    "Validation",
    "audit",
    "audit_diff",
    "audit_trees",
    "baseline_trouble",
    "flipped",
    "is_protected",
    "protected_paths",
    "pytest_config",
    "resolve",
    "run_tests",
    "run_tests_apart",
    "sightings",
    "tampering",
    "validate",
]
