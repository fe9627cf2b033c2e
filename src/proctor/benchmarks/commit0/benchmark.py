"""Commit0 as a benchmark: libraries as tasks, given out without their past, graded by their tests."""

import asyncio
import hashlib
import secrets
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from proctor.benchmarks.commit0.grade import Commit0GradingJob, grade, lay_out, oracle_results, strict_run, stub_results
from proctor.benchmarks.commit0.installed_copies import find_copies, installed_copy_paths, signature_lines
from proctor.benchmarks.commit0.interpreters import find_interpreter
from proctor.benchmarks.commit0.library import SPECIFICATION, Commit0Library
from proctor.benchmarks.commit0.prompt import instruction
from proctor.benchmarks.commit0.rows import Commit0Row
from proctor.benchmarks.commit0.venvs import (
    VENV,
    WORKDIR,
    Commit0Venv,
    cached_venv,
    ensure_venv,
    venv_key,
)
from proctor.benchmarks.commit0.verdicts import GRADER, passed_count
from proctor.core.benchmark import Benchmark, GradeOptions, GradingContext, InvalidTask, TaskHealth
from proctor.core.disk_names import disk_name
from proctor.core.environment import Environment, EnvironmentProvider, EnvironmentSpec, Limits, Network
from proctor.core.errors import InfrastructureError, InvalidData
from proctor.core.evaluation import Prediction, TaskEvaluation
from proctor.core.run import Machine
from proctor.core.submission import PatchKind
from proctor.core.task import DirectorySource, ImageSource, PrivatePart, PublicPart, Task
from proctor.environments import provider as find_provider
from proctor.environments.visibility import PATH
from proctor.workspaces import base_of, check_out, make_submission, prove_no_leak

LIMITS: Final = Limits(memory_mb=8192, processes=1024, disk_mb=8192)
_IMAGE_VENV: Final = f"{WORKDIR}/.venv"
# The published images hold the reference: as a commit in their repository, which goes here. What installing has made
# beside the repository's own files stays, the virtual environment above all; the list of it keeps it out of answers.
_GENERATED_LIST: Final = "/opt/generated-by-installing"
_DOCKERFILE: Final = """\
FROM {image}
RUN cd {workdir} && git ls-files -z | xargs -0 rm -f && rm -rf .git build dist \\
 && find . -path ./.venv -prune -o -type f -print0 >{generated}
ENV PATH={workdir}/.venv/bin:$PATH VIRTUAL_ENV={workdir}/.venv
WORKDIR {workdir}
"""
_REMOVE_SECONDS: Final = 300.0


class Commit0(Benchmark):
    """Implements `core.benchmark.Benchmark` for the libraries of one split."""

    name = "commit0"
    grader = GRADER

    def __init__(
        self,
        libraries: Sequence[Commit0Library],
        invalid_tasks: Sequence[InvalidTask],
        *,
        split: str,
        source: str,
        provider: EnvironmentProvider | None = None,
    ) -> None:
        self.split: str | None = split
        self.source = source
        self._libraries = {library.row.instance_id: library for library in libraries}
        self._invalid_tasks = invalid_tasks
        self._provider_or_none = provider

    def for_provider(self, provider: EnvironmentProvider) -> "Commit0":
        """The same libraries, in rooms of this provider."""
        return Commit0(
            list(self._libraries.values()),
            self._invalid_tasks,
            split=self.split or "",
            source=self.source,
            provider=provider,
        )

    def digest(self) -> str:
        """Identifies the data."""
        parts = [library.digest() for _, library in sorted(self._libraries.items())]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def fingerprint(self, task: Task) -> str:
        """Identifies the library, and what is installed beside it, once that is known."""
        library = self._libraries[task.id]
        parts = [library.digest()]
        if not self._in_docker:
            known = cached_venv(library)
            # What is not installed yet may become anything: nothing that was learned before is about it.
            parts += [venv_key(library), *(known.packages if known else [secrets.token_hex(16)])]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def environment_spec(self, task: Task, options: GradeOptions) -> EnvironmentSpec:
        """The room of a test run: for a container its image, elsewhere what every local room has."""
        image = options.image or image_of(self._libraries[task.id].row)
        return EnvironmentSpec(workdir=WORKDIR, limits=LIMITS, image=image, labels={"task": task.id})

    def tasks(self) -> Sequence[Task]:
        """Every library that can be used."""
        return [_task_of(self.name, library) for _, library in sorted(self._libraries.items())]

    def invalid_tasks(self) -> Sequence[InvalidTask]:
        """Rows without a commit or a list of tests."""
        return self._invalid_tasks

    def missing_requirement(self, task: Task, machine: Machine, runner: str) -> str | None:  # noqa: ARG002 - see StatesNeeds
        """Local rooms need the Python that the row asks for; an image brings its own."""
        if runner == "docker":
            return None
        try:
            find_interpreter(self._libraries[task.id].row.setup.python)
        except InfrastructureError as error:
            return error.sentence
        return None

    def oracle(self, task: Task) -> Prediction | None:
        """What makes the stubs the reference."""
        library = self._libraries[task.id]
        reference, base = library.oracle_tree(), library.stub_tree()
        if reference is None:
            return None
        with tempfile.TemporaryDirectory(prefix="proctor-gold-") as scratch:
            tree = Path(scratch) / "gold"
            lay_out(reference, None, tree)
            if (base / SPECIFICATION).is_file():
                shutil.copyfile(base / SPECIFICATION, tree / SPECIFICATION)
            made = make_submission(base_of(DirectorySource(path=str(base))), tree)
        return Prediction(task_id=task.id, patch_kind=PatchKind.UNIFIED_DIFF, content=made.patch, model="oracle")

    async def prepare(self, task: Task, folder: Path) -> EnvironmentSpec:
        """The stubs as the only commit of a repository, among the packages that their tests need."""
        library = self._libraries[task.id]
        installed = await self._venv(library)
        stubs, workspace = folder / "stubs", folder / "workspace"
        await asyncio.to_thread(lambda: lay_out(library.stub_tree(), _generated_files(installed), stubs))
        base = await asyncio.to_thread(base_of, DirectorySource(path=str(stubs)))
        await asyncio.to_thread(check_out, base, workspace)
        spec = _prepare_spec(library, installed, folder, image_of(library.row))
        variables = {} if installed is None else {"PATH": _search_path(installed) or "", "VIRTUAL_ENV": VENV}
        return msgspec.structs.replace(spec, workspace=workspace, network=Network.MODEL, variables=variables)

    async def collect(self, task: Task, environment: Environment, folder: Path) -> Prediction:
        """The agent's changes as a diff against our own copy of the stubs."""
        left = folder / "left"
        if self._in_docker:
            # Not the agent's work, and large.
            remove = f"rm -rf {_IMAGE_VENV}; xargs -0 -r rm -f <{_GENERATED_LIST}"
            await environment.exec(["sh", "-c", remove], timeout=_REMOVE_SECONDS)
        await environment.get(environment.workdir, left)
        base = await asyncio.to_thread(base_of, DirectorySource(path=str(folder / "stubs")))
        made = await asyncio.to_thread(make_submission, base, left)
        return Prediction(task_id=task.id, patch_kind=PatchKind.UNIFIED_DIFF, content=made.patch)

    async def grade(self, task: Task, prediction: Prediction, context: GradingContext) -> TaskEvaluation:
        """The official evaluation and the strict one, beside the stubs and the reference."""
        if prediction.patch_kind is not PatchKind.UNIFIED_DIFF:
            raise InvalidData("an answer to this task is a unified diff", where=task.id)
        with tempfile.TemporaryDirectory(prefix="proctor-commit0-") as scratch:
            return await grade(
                await self.for_provider(context.provider)._grading_job(task, context, Path(scratch)), prediction
            )

    async def validate(self, task: Task, context: GradingContext) -> TaskHealth:
        """The reference passes more than the stubs, both repeat, and the answer is nowhere within the agent's reach."""
        here = self.for_provider(context.provider)
        with tempfile.TemporaryDirectory(prefix="proctor-commit0-") as scratch:
            bench = await here._grading_job(task, context, Path(scratch))  # noqa: SLF001 - our own
            stub, gold = await stub_results(bench), await oracle_results(bench)
            again, _ = await strict_run(bench, bench.tree)
            leaks = await asyncio.to_thread(here._leaks, task, bench)  # noqa: SLF001
        flaky = tuple(test for test, status in stub.statuses.items() if again.statuses[test] is not status)
        count, before = len(bench.library.test_ids), passed_count(stub, gold)
        problems = []
        if gold is None:
            problems.append("the row does not say what the reference is")
        elif gold.error:
            problems.append(f"the reference cannot be tested: {gold.error}")
        elif passed_count(gold, gold) <= before:
            problems.append(f"the reference passes {passed_count(gold, gold)} of {count} tests, the stubs {before}")
        if flaky:
            problems.append(f"{len(flaky)} tests do not repeat, such as {flaky[0]}")
        return TaskHealth(
            task_id=task.id,
            environment=await context.provider.digest(self.environment_spec(task, context.options)),
            healthy=not problems and not leaks,
            pre_patch_ok=before < count,
            oracle_ok=gold is not None and not gold.error and passed_count(gold, gold) > before,
            determinism_ok=not flaky,
            problems=tuple(problems),
            flaky=flaky,
            leaks=leaks,
        )

    async def _grading_job(self, task: Task, context: GradingContext, scratch: Path) -> Commit0GradingJob:
        library = self._libraries[task.id]
        installed = await self._venv(library)
        tree = scratch / "stubs"
        await asyncio.to_thread(lambda: lay_out(library.stub_tree(), _generated_files(installed), tree))
        image = context.options.image or image_of(library.row)
        return Commit0GradingJob(
            library=library,
            context=context,
            folder=context.folder / "commit0" / disk_name(task.id),
            tree=tree,
            generated=_generated_files(installed),
            spec=_prepare_spec(library, installed, scratch, image),
            python=f"{VENV if installed else _IMAGE_VENV}/bin/python",
            search_path=_search_path(installed),
            environment_notes=()
            if installed is None
            else tuple(f"left out in installing: {step}" for step in installed.skipped_steps),
        )

    def _leaks(self, task: Task, job: Commit0GradingJob) -> tuple[str, ...]:
        """Where an agent could find the reference: in its workspace, or among the packages it is shown."""
        gold = self.oracle(task)
        if gold is None:
            return ()
        workspace = job.tree.with_name("workspace")
        base = base_of(DirectorySource(path=str(job.tree)))
        check_out(base, workspace)
        proof = prove_no_leak(gold.content, workspace, commit=base.commit)
        library = job.library
        telling = signature_lines(library.row, library.stub_tree(), library.oracle_tree() or library.stub_tree())
        packages = [Path(mount.source) for mount in job.spec.mounts if mount.target == VENV]
        return (
            *(f"{leak.location}: {leak.lines[0] if leak.lines else leak.kind}" for leak in proof.leaks),
            *(copy for place in packages for copy in find_copies(place, telling)),
        )

    async def _venv(self, library: Commit0Library) -> Commit0Venv | None:
        """The environment that local rooms need; the images of containers bring their own."""
        return None if self._in_docker else await ensure_venv(library, self._provider)

    @property
    def _in_docker(self) -> bool:
        return self._provider.name == "docker"

    @property
    def _provider(self) -> EnvironmentProvider:
        if self._provider_or_none is None:
            self._provider_or_none = find_provider("local")
        return self._provider_or_none


def image_of(row: Commit0Row) -> str:
    """The published image."""
    return f"wentingzhao/{row.name.lower()}:v0"


def _prepare_spec(library: Commit0Library, venv: Commit0Venv | None, folder: Path, image: str) -> EnvironmentSpec:
    """A room that can run the tests and shows no copy of the library."""
    labels = {"task": library.row.instance_id}
    if venv is not None:
        hidden = installed_copy_paths(library.row, venv.interpreter)
        return EnvironmentSpec(workdir=WORKDIR, limits=LIMITS, mounts=venv.mounts, hidden=hidden, labels=labels)
    build = folder / "image"
    build.mkdir()
    (build / "Dockerfile").write_text(_DOCKERFILE.format(image=image, workdir=WORKDIR, generated=_GENERATED_LIST))
    return EnvironmentSpec(workdir=WORKDIR, limits=LIMITS, build=build, labels=labels)


def _generated_files(venv: Commit0Venv | None) -> Path | None:
    return None if venv is None else venv.generated


def _search_path(venv: Commit0Venv | None) -> str | None:
    """Where programs are found; an image says so itself."""
    return None if venv is None else ":".join((f"{VENV}/bin", *PATH))


def _task_of(benchmark: str, library: Commit0Library) -> Task:
    row = library.row
    return Task(
        id=row.instance_id,
        benchmark=benchmark,
        public=PublicPart(
            instruction=instruction(row),
            source=ImageSource(image=image_of(row), workdir=WORKDIR),
            network=Network.MODEL,
        ),
        private=PrivatePart(pass_to_pass=library.test_ids, protected=library.protected()),
        categories={
            "library": row.name,
            "python": row.setup.python,
            "split": "lite" if row.is_lite else "full",
            "tests": _size_category(len(library.test_ids)),
        },
    )


def _size_category(tests: int) -> str:
    """How large a library is, by its tests."""
    return next((f"up to {most}" for most in (100, 300, 1000) if tests <= most), "more than 1000")
