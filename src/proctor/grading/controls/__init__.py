"""Control checks: a submission is trusted because it fails where a correct program must.

`Alteration` is one changed expectation of one test; `find_alterations` proposes them for a test file.
`controlled_check` judges a submission by runs of its tests: `prove_controls` makes the control set of a task with its
oracle, `run_test_variants` gives its variants to the submission, and `resolve_control_check` judges what they showed.
These are generators that ask for runs and do no I/O; `run_controlled` makes the runs.
"""

from proctor.grading.controls.alteration import Alteration, AlterationKind, Edit, alter, altered_lines, overlap
from proctor.grading.controls.control_check import (
    ControlCheck,
    control_findings,
    control_judgement,
    control_summary,
    may_be_resolved,
    resolve_control_check,
    run_test_variants,
)
from proctor.grading.controls.controlled_run import (
    ControlledRun,
    ControlledTests,
    controlled_check,
    controlled_tests,
    find_or_prove,
    read_sources,
    run_controlled,
)
from proctor.grading.controls.languages import find_alterations
from proctor.grading.controls.oracle_validation import prove_controls, sample_tests
from proctor.grading.controls.test_variants import (
    ControlSet,
    RequestedRun,
    Requests,
    RunVariant,
    TestVariant,
    make_runs,
)

__all__ = [
    "Alteration",
    "AlterationKind",
    "ControlCheck",
    "ControlSet",
    "ControlledRun",
    "ControlledTests",
    "Edit",
    "RequestedRun",
    "Requests",
    "RunVariant",
    "TestVariant",
    "alter",
    "altered_lines",
    "control_findings",
    "control_judgement",
    "control_summary",
    "controlled_check",
    "controlled_tests",
    "find_alterations",
    "find_or_prove",
    "make_runs",
    "may_be_resolved",
    "overlap",
    "prove_controls",
    "read_sources",
    "resolve_control_check",
    "run_controlled",
    "run_test_variants",
    "sample_tests",
]
