"""Control exams: a submission is believed because it fails where a right program must.

`Alteration` is one changed expectation of one test; `find_alterations` proposes them for a test file.
"""

from proctor.grading.controls.alteration import Alteration, AlterationKind, Edit, alter, altered_lines, overlap
from proctor.grading.controls.languages import find_alterations

__all__ = ["Alteration", "AlterationKind", "Edit", "alter", "altered_lines", "find_alterations", "overlap"]
