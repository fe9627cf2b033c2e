"""The grading kit: from running tests to results that a hostile program cannot fake, and from results to a verdict.

`GradingJob` is one task in grading: it runs tests in new environments, keeps the evidence and makes the report.
`apply_submission` lays a submission out on a copy of the base and audits the change of the tree; `restore_paths` and
`restore_protected` bring protected files back. `run_tests` runs a `TestPlan` in an environment that is there,
`run_tests_in_new_environment` makes one for it; both give a `TestRun`. `resolve` judges the runs before and after a
submission, `validate` judges a task. docs/grading.md says what each format guarantees.
"""

from proctor.grading.audit import (
    AuditCode,
    ChangedFile,
    audit,
    audit_change,
    run_time_findings,
    tampering_findings,
)
from proctor.grading.execution import run_tests, run_tests_in_new_environment
from proctor.grading.job import GradingJob, over_limit, summarise
from proctor.grading.layout import (
    AppliedSubmission,
    add_files,
    apply_submission,
    lay_out,
    replace_files,
)
from proctor.grading.outcome import InconclusiveKind, InconclusiveRun, TestResults, TestRun, without_tests
from proctor.grading.outcome_reader import EXIT_CODE_TEST
from proctor.grading.plan import (
    REPORTER_FORMATS,
    ConfigFile,
    TestFormat,
    TestPlan,
    bare_program,
    plan_requirements,
    pytest_config,
)
from proctor.grading.protected_patterns import TEST_MACHINERY, is_protected, protected_paths
from proctor.grading.protection import fixed_files, restore_paths, restore_protected
from proctor.grading.resolve import Expectation, Resolution, flaky_tests, pre_patch_problem, resolve
from proctor.grading.task_validation import TaskProblem, TaskProblemCode, TaskValidation, validate
from proctor.grading.test_program import program_patterns

__all__ = [
    "EXIT_CODE_TEST",
    "REPORTER_FORMATS",
    "TEST_MACHINERY",
    "AppliedSubmission",
    "AuditCode",
    "ChangedFile",
    "ConfigFile",
    "Expectation",
    "GradingJob",
    "InconclusiveKind",
    "InconclusiveRun",
    "Resolution",
    "TaskProblem",
    "TaskProblemCode",
    "TaskValidation",
    "TestFormat",
    "TestPlan",
    "TestResults",
    "TestRun",
    "add_files",
    "apply_submission",
    "audit",
    "audit_change",
    "bare_program",
    "fixed_files",
    "flaky_tests",
    "is_protected",
    "lay_out",
    "over_limit",
    "plan_requirements",
    "pre_patch_problem",
    "program_patterns",
    "protected_paths",
    "pytest_config",
    "replace_files",
    "resolve",
    "restore_paths",
    "restore_protected",
    "run_tests",
    "run_tests_in_new_environment",
    "run_time_findings",
    "summarise",
    "tampering_findings",
    "validate",
    "without_tests",
]
