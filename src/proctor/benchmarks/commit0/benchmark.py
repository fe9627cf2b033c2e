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

from proctor.benchmarks.commit0.control_check import make_controls
from proctor.benchmarks.commit0.grade import grade, oracle_results, stub_results
from proctor.benchmarks.commit0.grading_job import TEST_SECONDS, Commit0GradingJob, lay_out, strict_run
from proctor.benchmarks.commit0.installed_copies import find_copies, installed_copy_paths, signature_lines
from proctor.benchmarks.commit0.library import SPECIFICATION, Commit0Library
from proctor.benchmarks.commit0.rows import Commit0Row
from proctor.benchmarks.commit0.venvs import WORKDIR, Commit0Venv, cached_venv, ensure_venv, venv_key
from proctor.benchmarks.commit0.verdicts import GRADER, passed_count
from proctor.benchmarks.python_envs import VENV_DIR, find_interpreter, venv_variables
from proctor.core.benchmark import Benchmark, GradeOptions, GradingContext, InvalidTask, TaskHealth
from proctor.core.disk_names import disk_name
from proctor.core.environment import Environment, EnvironmentProvider, EnvironmentSpec, Limits, Network
from proctor.core.errors import InfrastructureError, InvalidData
from proctor.core.evaluation import Prediction, TaskEvaluation
from proctor.core.machine import Machine
from proctor.core.submission import PatchKind
from proctor.core.task import DirectorySource, ImageSource, PrivatePart, PublicPart, Task
from proctor.environments import provider as find_provider
from proctor.grading.controls import control_summary
from proctor.workspaces import base_of, check_out, collect_patch, make_submission, prove_no_leak

LIMITS: Final = Limits(memory_mb=8192, processes=1024, disk_mb=8192)
_IMAGE_VENV: Final = f"{WORKDIR}/.venv"
# The published images hold the oracle, as a commit in their repository: it is removed here. What installing has made
# beside the repository's own files stays, the virtual environment above all; the list keeps it out of submissions.
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
    """The libraries of one split."""

    name = "commit0"
    grader = GRADER
    builds_on_image = True

    def __init__(
        self,
        libraries: Sequence[Commit0Library],
        invalid_tasks: Sequence[InvalidTask],
        *,
        split: str,
        source: str,
        provider: EnvironmentProvider | None = None,
        image: str | None = None,
    ) -> None:
        self.split: str | None = split
        self._image = image
        self.source = source
        self._libraries = {library.row.instance_id: library for library in libraries}
        self._invalid_tasks = invalid_tasks
        self._provider_or_none = provider

    def for_provider(self, provider: EnvironmentProvider) -> "Commit0":
        """The same libraries, in environments of this provider."""
        return self._replaced(provider, self._image)

    def with_image(self, image: str | None) -> "Commit0":
        """The same libraries, in images that are built on this one; None: on the published ones."""
        return self._replaced(self._provider_or_none, image)

    def _replaced(self, provider: EnvironmentProvider | None, image: str | None) -> "Commit0":
        return Commit0(
            list(self._libraries.values()),
            self._invalid_tasks,
            split=self.split or "",
            source=self.source,
            provider=provider,
            image=image,
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
        """The environment of a test run: for a container its image, elsewhere what every local environment has."""
        image = options.image or self._image or image_of(self._libraries[task.id].row)
        return EnvironmentSpec(workdir=WORKDIR, limits=LIMITS, image=image, labels={"task": task.id})

    def tasks(self) -> Sequence[Task]:
        """Every library that can be used."""
        return [_task_of(self.name, library) for _, library in sorted(self._libraries.items())]

    def invalid_tasks(self) -> Sequence[InvalidTask]:
        """Rows without a commit or a list of tests."""
        return self._invalid_tasks

    def missing_requirement(self, task: Task, machine: Machine, runner: str) -> str | None:
        """Local environments need the Python that the row asks for; an image brings its own."""
        if runner == "docker":
            return None
        try:
            find_interpreter(self._libraries[task.id].row.setup.python)
        except InfrastructureError as error:
            return error.sentence
        return None

    def oracle(self, task: Task) -> Prediction | None:
        """The diff from the stubs to the oracle."""
        library = self._libraries[task.id]
        oracle, base = library.oracle_tree(), library.stub_tree()
        if oracle is None:
            return None
        with tempfile.TemporaryDirectory(prefix="proctor-oracle-") as scratch:
            tree = Path(scratch) / "oracle"
            lay_out(oracle, None, tree)
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
        spec = _prepare_spec(library, installed, folder, self._image or image_of(library.row))
        variables = {} if installed is None else venv_variables()
        return msgspec.structs.replace(spec, workspace=workspace, network=Network.MODEL, variables=variables)

    async def collect(self, task: Task, environment: Environment, folder: Path) -> Prediction:
        """The agent's changes as a diff against our own copy of the stubs."""
        if self._in_docker:
            # Not the agent's work, and large.
            remove = f"rm -rf {_IMAGE_VENV}; xargs -0 -r rm -f <{_GENERATED_LIST}"
            await environment.exec(["sh", "-c", remove], timeout=_REMOVE_SECONDS)
        stubs = DirectorySource(path=str(folder / "stubs"))
        return await collect_patch(task.id, environment, lambda: base_of(stubs), folder)

    async def grade(self, task: Task, prediction: Prediction, context: GradingContext) -> TaskEvaluation:
        """The official evaluation and the strict one, beside the stubs and the oracle."""
        if prediction.patch_kind is not PatchKind.UNIFIED_DIFF:
            raise InvalidData("a submission for this task is a unified diff", where=task.id)
        with tempfile.TemporaryDirectory(prefix="proctor-commit0-") as scratch:
            job = await self.for_provider(context.provider)._grading_job(task, context, Path(scratch))  # noqa: SLF001 - our own
            return await grade(job, prediction)

    async def validate(self, task: Task, context: GradingContext) -> TaskHealth:
        """The oracle passes more than the stubs, both repeat, and the agent cannot find the oracle."""
        here = self.for_provider(context.provider)
        with tempfile.TemporaryDirectory(prefix="proctor-commit0-") as scratch:
            job = await here._grading_job(task, context, Path(scratch))  # noqa: SLF001 - our own
            stub, oracle = await stub_results(job), await oracle_results(job)
            again, _ = await strict_run(job, job.tree)
            leaks = await asyncio.to_thread(here._leaks, task, job)  # noqa: SLF001 - our own
            controls = None
            if context.options.controls and oracle is not None and not oracle.error:
                controls = control_summary(await make_controls(job, stub, oracle, Path(scratch)), None)
        flaky = tuple(test for test, status in stub.statuses.items() if again.statuses[test] is not status)
        count, before = len(job.library.test_ids), passed_count(stub, oracle)
        problems = []
        if oracle is None:
            problems.append("the row names no oracle")
        elif oracle.error:
            problems.append(f"the oracle cannot be tested: {oracle.error}")
        elif passed_count(oracle, oracle) <= before:
            problems.append(f"the oracle passes {passed_count(oracle, oracle)} of {count} tests, the stubs {before}")
        if flaky:
            problems.append(f"{len(flaky)} tests do not repeat, such as {flaky[0]}")
        return TaskHealth(
            task_id=task.id,
            environment=await context.provider.digest(self.environment_spec(task, context.options)),
            healthy=not problems and not leaks,
            pre_patch_ok=before < count,
            oracle_ok=oracle is not None and not oracle.error and passed_count(oracle, oracle) > before,
            determinism_ok=not flaky,
            problems=tuple(problems),
            flaky=flaky,
            leaks=leaks,
            controls=controls,
        )

    async def _grading_job(self, task: Task, context: GradingContext, scratch: Path) -> Commit0GradingJob:
        library = self._libraries[task.id]
        installed = await self._venv(library)
        tree = scratch / "stubs"
        await asyncio.to_thread(lambda: lay_out(library.stub_tree(), _generated_files(installed), tree))
        image = context.options.image or self._image or image_of(library.row)
        skipped_steps = () if installed is None else installed.skipped_steps
        return Commit0GradingJob(
            task_id=task.id,
            grader=GRADER,
            context=context,
            folder=context.folder / "commit0" / disk_name(task.id),
            spec=_prepare_spec(library, installed, scratch, image),
            timeout=context.options.timeout_seconds or TEST_SECONDS,
            protected=library.protected(),
            notes=tuple(f"left out in installing: {step}" for step in skipped_steps),
            library=library,
            tree=tree,
            generated=_generated_files(installed),
            python=f"{VENV_DIR if installed else _IMAGE_VENV}/bin/python",
            search_path=_search_path(installed),
        )

    def _leaks(self, task: Task, job: Commit0GradingJob) -> tuple[str, ...]:
        """Where an agent could find the oracle: in its workspace, or among the packages it is shown."""
        oracle = self.oracle(task)
        if oracle is None:
            return ()
        workspace = job.tree.with_name("workspace")
        base = base_of(DirectorySource(path=str(job.tree)))
        check_out(base, workspace)
        proof = prove_no_leak(oracle.content, workspace, commit=base.commit)
        library = job.library
        signature = signature_lines(library.row, library.stub_tree(), library.oracle_tree() or library.stub_tree())
        packages = [Path(mount.source) for mount in job.spec.mounts if mount.target == VENV_DIR]
        return (
            *proof.descriptions,
            *(copy for place in packages for copy in find_copies(place, signature)),
        )

    async def _venv(self, library: Commit0Library) -> Commit0Venv | None:
        """The virtual environment for local environments; images bring their own."""
        return None if self._in_docker else await ensure_venv(library, self._provider)

    @property
    def _in_docker(self) -> bool:
        return self._provider.uses_images

    @property
    def _provider(self) -> EnvironmentProvider:
        if self._provider_or_none is None:
            self._provider_or_none = find_provider("local")
        return self._provider_or_none


def image_of(row: Commit0Row) -> str:
    """The published image."""
    return f"wentingzhao/{row.name.lower()}:v0"


def _prepare_spec(library: Commit0Library, venv: Commit0Venv | None, folder: Path, image: str) -> EnvironmentSpec:
    """An environment that can run the tests and shows no copy of the library."""
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
    return None if venv is None else venv_variables()["PATH"]


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


def instruction(row: Commit0Row) -> str:
    """The task in words: the benchmark's own, for an agent that finds its way in a repository by itself."""
    return f"""\
This repository holds the skeleton of the Python library `{row.name}`. Functions in `{row.src_dir}` have lost their \
bodies: what is left is the signature, the docstring and `pass`. Some that had no docstring are gone altogether.

Implement the library. Complete every function that is not implemented, and add whatever is missing, so that the unit \
tests in `{row.test.test_dir}` pass. Do not rename functions or classes that are there, and keep to the way the code \
is formatted. The specification of the library is in `{SPECIFICATION}` at the root of the repository, if it is there \
(compressed PDF).

The tests are run with `{row.test.test_cmd} {row.test.test_dir}`, by Python {row.setup.python}, with everything \
installed that they need. The tests themselves are put back as they are now before your work is graded. The original \
library is not available, and there is no network.
"""


def _size_category(tests: int) -> str:
    """How large a library is, by its tests."""
    return next((f"up to {most}" for most in (100, 300, 1000) if tests <= most), "more than 1000")
