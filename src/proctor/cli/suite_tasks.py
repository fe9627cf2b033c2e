"""A task for a suite, from a change: its tests are hidden, the rest is the oracle, and running both finds labels."""

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from proctor.benchmarks.suites.format import Id, InstanceRef, OracleRef, ProctorSuiteFile, TestsEval, TestsInstanceFile
from proctor.core.errors import InvalidData, UsageError
from proctor.core.evaluation import TaskEvaluation
from proctor.core.files import write_atomic
from proctor.core.record import Record, to_json
from proctor.core.request import EvaluateRequest
from proctor.core.submission import PatchKind
from proctor.core.user_files import read_user_bytes, read_user_file
from proctor.core.verdict import TestStatus
from proctor.grading.audit.paths import is_test
from proctor.runner.evaluation import open_evaluation
from proctor.workspaces import InvalidSubmission
from proctor.workspaces.diff_parser import FileDiff, read_diff

_SUITE_FILE: Final = "suite.json"


class NewTask(Record):
    """What `suite add-task` is given."""

    suite: Path
    task_id: str
    repo: Path
    diff: Path
    issue: Path
    rev: str | None
    form: str
    targets: tuple[str, ...]
    tags: tuple[str, ...]
    difficulty: Literal["easy", "medium", "hard"] | None
    runner: str


class AddedTask(Record):
    """What was added: how many tests begin to pass with the oracle, and how many go on passing."""

    suite: str
    task_id: str
    fail_to_pass: int
    pass_to_pass: int


def check_id(text: str) -> str:
    """The id of a suite or of a task, once it is known to be one.

    Raises:
        UsageError: it has other characters than ids have.
    """
    try:
        return msgspec.convert(text, Id)
    except msgspec.ValidationError as error:
        fix = "use letters, digits, '.', '_' and '-', a letter or digit first, and 128 of them at most"
        raise UsageError(f"{text!r} cannot be an id", fix=fix) from error


def add_task_to_suite(task: NewTask) -> AddedTask:
    """Make the instance, run its tests on both programs, and name it in the suite's file.

    Raises:
        UsageError: the task is there already, or the diff cannot be used.
        InvalidData: the tests do not tell the two programs apart.
    """
    check_id(task.task_id)
    file = task.suite / _SUITE_FILE if task.suite.is_dir() else task.suite
    try:
        suite = msgspec.json.decode(read_user_file(file, "the suite"), type=ProctorSuiteFile)
    except msgspec.DecodeError as error:
        raise InvalidData(f"this is not a suite: {error}", where=file) from error
    folder = file.parent / "instances" / task.task_id
    if folder.exists() or any(ref.id == task.task_id for ref in suite.instances):
        raise UsageError(f"the suite has a task {task.task_id!r} already", where=file, fix="choose another --id")
    with tempfile.TemporaryDirectory(dir=file.parent, prefix=".new-task-") as scratch:
        instance = Path(scratch) / "instances" / task.task_id
        made = _write_instance(instance, task)
        draft = msgspec.structs.replace(suite, instances=(_ref(task.task_id),))
        (Path(scratch) / _SUITE_FILE).write_bytes(to_json(draft))
        labels = _labels(asyncio.run(_evaluate(Path(scratch), task)), file)
        made = msgspec.structs.replace(made, eval=msgspec.structs.replace(made.eval, **labels))
        (instance / "instance.json").write_bytes(to_json(made))
        folder.parent.mkdir(exist_ok=True)
        instance.rename(folder)
    write_atomic(file, to_json(msgspec.structs.replace(suite, instances=(*suite.instances, _ref(task.task_id)))))
    counts = {name: len(some) for name, some in labels.items()}
    return AddedTask(suite=str(task.suite), task_id=task.task_id, **counts)


def _ref(task_id: str) -> InstanceRef:
    return InstanceRef(id=task_id, path=f"instances/{task_id}")


def _write_instance(folder: Path, task: NewTask) -> TestsInstanceFile:
    """The files of an instance, still without labels."""
    patch = read_user_bytes(task.diff, "the diff")
    try:
        files = read_diff(patch)
    except InvalidSubmission as error:
        raise UsageError(f"this diff cannot be used: {error}", where=task.diff) from error
    tests = [file for file in files if is_test(os.fsdecode(file.path))]
    paths = sorted(os.fsdecode(file.path) for file in tests)
    if not tests or len(tests) == len(files):
        what = "changes no test" if not tests else "changes nothing but tests"
        raise UsageError(f"the diff {what}", where=task.diff, fix="give one that has the change and its tests")
    repo = folder / "repo"
    _copy_repo(task.repo, task.rev, repo)
    changed = folder / "changed"
    shutil.copytree(repo, changed, symlinks=True)
    _apply(patch, changed, task.diff)
    for path in paths:
        if (changed / path).is_file():
            hidden = folder / "hidden" / path
            hidden.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(changed / path, hidden)
    shutil.rmtree(changed)
    (folder / "oracle.diff").write_bytes(_without(patch, tests))
    shutil.copy2(task.issue, folder / "issue.md")
    targets = task.targets or tuple(filter(_is_collected, paths))
    made = TestsInstanceFile(
        schema_version="proctor.instance@1",
        instance_id=task.task_id,
        problem_statement_path="issue.md",
        repo_path="repo",
        language="python",
        requires=("python3",),
        tags=task.tags,
        difficulty=task.difficulty,
        eval=TestsEval(
            format="pytest" if task.form == "pytest" else "unittest",
            arguments=targets,
            hidden_path="hidden",
            protected=tuple(paths),
        ),
        oracle=OracleRef(patch_kind=PatchKind.UNIFIED_DIFF, patch_path="oracle.diff"),
    )
    (folder / "instance.json").write_bytes(to_json(made))
    return made


def _is_collected(path: str) -> bool:
    name = Path(path).name
    return name.endswith(".py") and (name.startswith("test") or name.endswith("_test.py"))


def _copy_repo(source: Path, rev: str | None, target: Path) -> None:
    """The program before the change: of a git repository what is tracked, or a commit's files; else all files."""
    if not (source / ".git").exists():
        if rev is not None:
            raise UsageError("--rev is for a git repository", where=source, fix="leave it out")
        shutil.copytree(source, target, symlinks=True)
        return
    target.mkdir(parents=True)
    archive = subprocess.run(
        ["git", "-C", str(source), "archive", "--format=tar", rev or "HEAD"], capture_output=True, check=False
    )
    if archive.returncode:
        reason = archive.stderr.decode(errors="replace").strip()
        raise UsageError(f"git cannot read {rev or 'HEAD'}: {reason}", where=source)
    subprocess.run(["tar", "-x", "-C", str(target)], input=archive.stdout, check=True)


def _apply(patch: bytes, folder: Path, where: Path) -> None:
    command = ["git", "-c", "core.autocrlf=false", "apply", "--whitespace=nowarn", "-"]
    done = subprocess.run(command, cwd=folder, input=patch, capture_output=True, check=False)
    if done.returncode:
        reason = " ".join(done.stderr.decode(errors="replace").split())
        raise UsageError(f"the diff does not apply to the program: {reason}", where=where)


def _without(patch: bytes, left_out: Iterable[FileDiff]) -> bytes:
    """The diff without what it says about some files."""
    lines = patch.split(b"\n")
    dropped = {number for file in left_out for number in range(file.lines.start, file.lines.stop)}
    kept = b"\n".join(line for number, line in enumerate(lines) if number not in dropped)
    return kept if kept.endswith(b"\n") else kept + b"\n"


async def _evaluate(suite: Path, task: NewTask) -> TaskEvaluation:
    with tempfile.TemporaryDirectory() as artifacts:
        request = EvaluateRequest(
            suite=str(suite), tasks=(task.task_id,), runner=task.runner, controls=0, artifacts=artifacts, cache=False
        )
        async with open_evaluation(request) as evaluation:
            report = await evaluation.report("oracle", lambda _: None)
    (found,) = report.tasks
    return found


def _labels(found: TaskEvaluation, where: Path) -> dict[str, Sequence[str]]:
    """Which tests begin to pass with the oracle, and which go on passing."""
    passed = [test for test in found.verdict.tests if test.after is TestStatus.PASSED]
    begin = tuple(test.id for test in passed if test.before is not TestStatus.PASSED)
    stay = tuple(test.id for test in passed if test.before is TestStatus.PASSED)
    if not begin:
        fix = "the diff needs a test that shows the change, and --format must fit it"
        if not found.verdict.tests:
            fix = "--format must be of what environments have: on Debian, apt-get install python3-pytest is in them"
        raise InvalidData(
            f"no test fails before the change and passes after it: {found.verdict.reason}", where=where, fix=fix
        )
    return {"fail_to_pass": begin, "pass_to_pass": stay}
