"""The task of writing a repository's `proctor-mine.toml`, for an agent that is asked once."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from proctor.core.benchmark import Benchmark, GradeOptions, GradingContext
from proctor.core.causes import Cause, Status
from proctor.core.environment import Environment, EnvironmentSpec, Network
from proctor.core.errors import UsageError
from proctor.core.evaluation import Prediction, TaskEvaluation
from proctor.core.task import DirectorySource, PrivatePart, PublicPart, Task
from proctor.core.verdict import Verdict
from proctor.mining.settings import SETTINGS_FILE, parse_settings
from proctor.workspaces import base_of, check_out, collect_patch
from proctor.workspaces.diff_parser import parse_diff

TASK_ID: Final = "setup"
_INSTRUCTION: Final = """\
Write the file {file} at the top of this repository. It tells a program how to install what the repository's tests
need, and how to run its tests. The program tried without it, and failed:

{failures}

The file is TOML. All keys are optional; a wrong key is an error:

[paths]  tests, source, generated: lists of patterns as in .gitignore
[setup]  language ("python", "javascript", "go", "rust", "java" or "other"), python ("3.11"), packages (list of Python
         packages to add), requirements (list of requirement files, or ".[extra]"), runtimes ({{node = "20"}}),
         variables (table), commands (list of shell commands that install everything below /deps, which is all that
         is kept; the repository is the current directory; "$PYTHON" is the interpreter), files (paths that the
         commands depend on)
[test]   format ("pytest", "unittest", "junit", "tap", "go-test-json", "exit-code"), command (list of words;
         "{{tests}}" stands for the changed test files, "{{report}}" for the path of the report), build (list of lists
         of words, run in the repository before the tests), services (list of shell commands that start what the tests
         need, and return), options, timeout_seconds, scope ("touched" or "all")

Set-up has the network, tests have none. Read the repository's own instructions and its CI configuration. Keep the file
short. Change nothing else.
"""


class SetupFileBenchmark(Benchmark):
    """One task: a repository as it is, and the request for its settings. What the agent writes must be valid."""

    name = "setup_file"
    grader = "setup_file/1"

    def __init__(self, tree: Path, failures: Sequence[str]) -> None:
        self._tree = tree
        self._failures = tuple(failures)
        self.text: str | None = None

    def tasks(self) -> Sequence[Task]:
        """The one task."""
        failures = "\n".join(f"- {failure}" for failure in self._failures) or "- (nothing was tried yet)"
        instruction = _INSTRUCTION.format(file=SETTINGS_FILE, failures=failures)
        public = PublicPart(instruction=instruction, source=DirectorySource(path=str(self._tree)))
        return (Task(id=TASK_ID, benchmark=self.name, public=public, private=PrivatePart()),)

    def environment_spec(self, task: Task, options: GradeOptions) -> EnvironmentSpec:
        """A plain one: nothing of the repository is run to grade it."""
        del task
        return EnvironmentSpec(image=options.image)

    async def prepare(self, task: Task, folder: Path) -> EnvironmentSpec:
        """The repository as it is."""
        del task
        base = await asyncio.to_thread(base_of, DirectorySource(path=str(self._tree)))
        await asyncio.to_thread(check_out, base, folder / "workspace")
        return EnvironmentSpec(workspace=folder / "workspace", network=Network.MODEL)

    async def collect(self, task: Task, environment: Environment, folder: Path) -> Prediction:
        """What the agent changed."""
        source = DirectorySource(path=str(self._tree))
        return await collect_patch(task.id, environment, lambda: base_of(source), folder)

    async def grade(self, task: Task, prediction: Prediction, context: GradingContext) -> TaskEvaluation:
        """Whether a valid file was written; its text is then in `text`."""
        del context
        status, cause, reason = Status.UNRESOLVED, Cause.TESTS_FAILED, f"no {SETTINGS_FILE} was written"
        text = written_settings(prediction.content)
        if text is not None:
            try:
                parse_settings(text, where=SETTINGS_FILE)
            except UsageError as error:
                reason = error.sentence
            else:
                self.text = text
                status, cause, reason = Status.RESOLVED, Cause.SOLVED, "the file is valid"
        verdict = Verdict(task_id=task.id, status=status, cause=cause, reason=reason, grader=self.grader)
        return TaskEvaluation(task_id=task.id, verdict=verdict, patch_kind=prediction.patch_kind)


def written_settings(patch: bytes) -> str | None:
    """The text of the settings that a patch adds; None when it adds none."""
    for file in parse_diff(patch).files if patch else ():
        if file.path == SETTINGS_FILE.encode():
            lines = [line.text.decode("utf-8", "replace") for line in file.content if line.kind in {"add", "same"}]
            return "\n".join(lines) + "\n"
    return None
