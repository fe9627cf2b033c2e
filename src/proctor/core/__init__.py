"""The records that every part of Proctor shares, the errors, and the base classes of plugins. Imports no other package.

A task is prepared, solved, collected, graded, recorded, reported: a `Task` becomes a submission, a `Verdict`, a
`TaskResult`.
"""

VERSION = "0.1.0"
