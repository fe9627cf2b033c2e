"""Control exams: a submission is believed because it fails where a right program must.

`Alteration` is one changed expectation of one test; `find_alterations` proposes them for a test file.
`controlled_exam` judges a submission by runs of its tests: `prove_controls` makes the control set of a task with its
oracle, `examine` gives its papers to the submission, and `resolve_exam` judges what they showed. These are generators
that ask for runs and do no I/O; `run_controlled` makes the runs.
"""

from proctor.grading.controls.alteration import Alteration, AlterationKind, Edit, alter, altered_lines, overlap
from proctor.grading.controls.controlled_run import (
    ControlledRun,
    ControlledTests,
    controlled_exam,
    find_or_prove,
    read_sources,
    run_controlled,
)
from proctor.grading.controls.exam import (
    Exam,
    control_findings,
    control_judgement,
    control_summary,
    examine,
    resolve_exam,
    stands_so_far,
)
from proctor.grading.controls.languages import find_alterations
from proctor.grading.controls.papers import ControlSet, Paper, RequestedRun, Requests, RunPaper, make_runs
from proctor.grading.controls.proof import prove_controls, sample_tests

__all__ = [
    "Alteration",
    "AlterationKind",
    "ControlSet",
    "ControlledRun",
    "ControlledTests",
    "Edit",
    "Exam",
    "Paper",
    "RequestedRun",
    "Requests",
    "RunPaper",
    "alter",
    "altered_lines",
    "control_findings",
    "control_judgement",
    "control_summary",
    "controlled_exam",
    "examine",
    "find_alterations",
    "find_or_prove",
    "make_runs",
    "overlap",
    "prove_controls",
    "read_sources",
    "resolve_exam",
    "run_controlled",
    "sample_tests",
    "stands_so_far",
]
