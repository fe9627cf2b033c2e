"""What agents are told, for each benchmark of the SWE family."""

from typing import Final

SWE_BENCH_PROMPT: Final = """\
Fix the problem in the repository in {workdir} that this pull request description reports:

<pr_description>
{statement}
</pr_description>

Change the source code in {workdir} so that it does what the description asks for, also in cases that it does not list.
The tests for this change already exist: do not edit test files or test configuration. All dependencies of the
project are installed."""


SWE_BENCH_PRO_PROMPT: Final = """\
Implement the change to the repository in {workdir} that this pull request description asks for:

<pr_description>
{body}
</pr_description>

Change the source code in {workdir} so that it does what the description asks for, also in cases that it does not list.
The tests for this change already exist: do not edit test files or test configuration."""


# The part that the official prompt is made of, in its words.
SWE_BENCH_PRO_BODY: Final = "{statement}\n\nRequirements:\n{requirements}\n\nNew interfaces introduced:\n{interface}"


SWE_EVO_PROMPT: Final = """\
The repository in {workdir} is at version {start} of its project. These are the notes of the next release, {end}:

<release_notes>
{statement}
</release_notes>

Change the source code in {workdir} so that it becomes what these notes describe. The tests for this release already
exist: do not edit test files or test configuration. All dependencies of the project are installed."""
