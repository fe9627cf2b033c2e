"""Control exams: a submission is believed because it fails where a right program must.

`Alteration` is one changed expectation of one test; `find_alterations` proposes them for a test file.
`run_controlled` runs the tests of a submission under control: `prove_controls` makes the control set of a task with its
oracle, `examine` gives its papers to the submission, and `resolve_exam` judges what they showed.
"""

from proctor.grading.controls.alteration import Alteration, AlterationKind, Edit, alter, altered_lines, overlap
from proctor.grading.controls.controlled_run import (
    ControlledRun,
    ControlledTests,
    read_sources,
    run_controlled,
)
from proctor.grading.controls.exam import (
    Exam,
    control_findings,
    control_summary,
    examine,
    resolve_exam,
    stands_so_far,
)
from proctor.grading.controls.languages import find_alterations
from proctor.grading.controls.papers import ControlSet, Paper
from proctor.grading.controls.proof import RunPaper, prove_controls, sample_tests

__all__ = [
    "Alteration",
    "AlterationKind",
    "ControlSet",
    "ControlledRun",
    "ControlledTests",
    "Edit",
    "Exam",
    "Paper",
    "RunPaper",
    "alter",
    "altered_lines",
    "control_findings",
    "control_summary",
    "examine",
    "find_alterations",
    "overlap",
    "prove_controls",
    "read_sources",
    "resolve_exam",
    "run_controlled",
    "sample_tests",
    "stands_so_far",
]
