"""The nouns that every part of Proctor shares, and the errors. This room imports nothing of ours.

A task is prepared, answered, collected, graded, recorded, reported: `Task` becomes a `Submission`, a `Verdict`,
a `TaskResult`. The protocols that a plugin implements are here too.
"""
