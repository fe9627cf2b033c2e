"""Grading where the agent worked: a machine whose root it was, and whose every file and process it may have changed.

`remember` notes, before the agent comes, what the programs are that will decide. Once it has gone, `settle` puts the
shell back, ends what the agent left running, brings trusted copies of the programs, and names what smells; then
`run_fresh` runs the grader in a shell that knows nothing of the agent's. docs/grading.md says what this cannot see.
"""

from proctor.grading.live.anchor import Anchor, remember
from proctor.grading.live.codes import RoomCode
from proctor.grading.live.fresh import Ran, run_fresh, unless_hindered
from proctor.grading.live.processes import Census, Leftovers, Process, leftovers, read_census, services
from proctor.grading.live.programs import Program, Survey, words_of
from proctor.grading.live.settle import Settled, Telltale, settle

__all__ = [
    "Anchor",
    "Census",
    "Leftovers",
    "Process",
    "Program",
    "Ran",
    "RoomCode",
    "Settled",
    "Survey",
    "Telltale",
    "leftovers",
    "read_census",
    "remember",
    "run_fresh",
    "services",
    "settle",
    "unless_hindered",
    "words_of",
]
