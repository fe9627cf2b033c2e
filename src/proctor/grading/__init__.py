"""Grading: from running tests to results that a hostile program cannot fake, and from results to a verdict.

`run_tests` runs a `TestPlan` in a room, `run_tests_apart` in one that it makes for it; both give a `TestRun`.
`resolve` judges runs before and after a submission, `validate` judges a task; `audit_diff` reads a submission for what
smells; `is_protected` tells which of its paths are put back before the tests run. Everything but the two is pure.
docs/grading.md says what each format guarantees.
"""

from proctor.grading.audit import (
    AuditCode,
    ChangedFile,
    audit,
    audit_diff,
    audit_trees,
    tamper_event_findings,
    tampering_findings,
)
from proctor.grading.execution import run_tests, run_tests_in_new_environment
from proctor.grading.outcome import InconclusiveKind, InconclusiveRun, TamperEvent, TestResults, TestRun
from proctor.grading.outcome_reader import EXIT_CODE_TEST
from proctor.grading.plan import ConfigFile, TestFormat, TestPlan, pytest_config
from proctor.grading.protection import TEST_MACHINERY, is_protected, protected_paths
from proctor.grading.resolve import Expectation, Resolution, flaky_tests, pre_patch_problem, resolve
from proctor.grading.validation import TaskProblem, TaskProblemCode, TaskValidation, validate

__all__ = [
    "EXIT_CODE_TEST",
    "TEST_MACHINERY",
    "AuditCode",
    "ChangedFile",
    "ConfigFile",
    "Expectation",
    "InconclusiveKind",
    "InconclusiveRun",
    "Resolution",
    "TamperEvent",
    "TaskProblem",
    "TaskProblemCode",
    "TaskValidation",
    "TestFormat",
    "TestPlan",
    "TestResults",
    "TestRun",
    "audit",
    "audit_diff",
    "audit_trees",
    "flaky_tests",
    "is_protected",
    "pre_patch_problem",
    "protected_paths",
    "pytest_config",
    "resolve",
    "run_tests",
    "run_tests_in_new_environment",
    "tamper_event_findings",
    "tampering_findings",
    "validate",
]
