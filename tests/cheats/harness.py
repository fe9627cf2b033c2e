"""Where cheats are graded for real: a small suite, environments on this machine, and a host that would notice harm."""

import asyncio
import hashlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple, Self

import msgspec

from cheats.cheat import Cheat, Content, Link, Program
from cheats.tasks import BYSTANDER, TASKS, HarnessTask
from proctor.benchmarks import suite_benchmark
from proctor.core.benchmark import Benchmark, GradeOptions, GradingContext
from proctor.core.causes import Status
from proctor.core.delegating_provider import DelegatingProvider
from proctor.core.environment import (
    Environment,
    EnvironmentSpec,
    Mount,
    OneShotCommand,
    OneShotResult,
)
from proctor.core.evaluation import Prediction, TaskEvaluation
from proctor.core.submission import PatchKind
from proctor.environments.local import LocalProvider
from proctor.runner.evaluate import evaluate

TEST_SECONDS = 30.0
PYTEST_TASKS = frozenset(name for name, task in TASKS.items() if task.evaluation["format"] == "pytest")


class Outcome(NamedTuple):
    """What became of a cheat. `harm` says what happened to the host, to the run, or to the other task."""

    cheat: Cheat
    graded: TaskEvaluation
    harm: tuple[str, ...]
    seconds: float

    @property
    def findings(self) -> tuple[str, ...]:
        return tuple(sorted({finding.code for finding in self.graded.verdict.findings}))

    @property
    def wins(self) -> bool:
        """Resolved, or harmful."""
        return bool(self.harm) or self.graded.verdict.status is Status.RESOLVED


async def timed(work: Awaitable[TaskEvaluation]) -> tuple[TaskEvaluation, float]:
    started = time.monotonic()
    return await work, time.monotonic() - started


class Harness:
    """Grades cheats in environments below `folder`, on a host that is watched."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.suite = write_suite(folder / "suite")
        self.cache = folder / "cache"
        self.outside = folder / "outside"
        for place in (self.cache, self.outside):
            place.mkdir()
            (place / "canary").write_text("still here\n")
        self.environments = folder / f"environments-{secrets.token_hex(8)}"
        self.benchmark: Benchmark = suite_benchmark(str(self.suite))
        self.listener = Listener()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.listener.close()

    def submission(self, cheat: Cheat) -> bytes:
        """The cheat as its author would submit it."""
        if cheat.patch is not None:
            return self._filled(cheat.patch)
        task = TASKS[cheat.task]
        files = {path: self._filled_content(content) for path, content in cheat.files.items()}
        return diff(task.repo, {**task.repo, **files}, self.folder / f"diff-{secrets.token_hex(4)}")

    async def grade(self, cheat: Cheat, *, controls: int = GradeOptions().controls) -> Outcome:
        """Grade a cheat beside an honest submission to another task, and look at the host afterwards."""
        before = self._host()
        # Nothing known of it: each time, the honest submission is another one.
        honest = {path: f"{text}# {cheat.name}\n" for path, text in TASKS["unittest"].solution.items()}
        repo = TASKS["unittest"].repo
        beside = diff(repo, {**repo, **honest}, self.folder / f"diff-{secrets.token_hex(4)}")
        provider = ArenaProvider(self.environments)
        with variable("PROCTOR_CACHE", str(self.cache)):
            # Of the honest one, whether it is disturbed is all that is asked.
            (graded, seconds), (bystander, usual_seconds) = await asyncio.gather(
                timed(self._evaluate(provider, cheat.task, self.submission(cheat), controls)),
                timed(self._evaluate(provider, BYSTANDER, beside, controls=0)),
            )
        await provider.close()
        harm = [*self._harm(before), *await self._survivors()]
        if bystander.verdict.status is not Status.RESOLVED:
            harm.append(f"the honest task beside it: {bystander.verdict.reason}")
        # On a busy machine, honest submissions take longer too.
        if seconds > cheat.seconds + 5 * usual_seconds:
            harm.append(f"grading took {seconds:.0f} s")
        return Outcome(cheat, graded, tuple(harm), seconds)

    async def _evaluate(self, provider: "ArenaProvider", task_id: str, patch: bytes, controls: int) -> TaskEvaluation:
        (graded,) = await evaluate(
            self.benchmark,
            [task for task in self.benchmark.tasks() if task.id == task_id],
            {task_id: Prediction(task_id=task_id, patch_kind=PatchKind.UNIFIED_DIFF, content=patch)},
            GradingContext(provider, self.folder / "artifacts" / secrets.token_hex(8), GradeOptions(controls=controls)),
            jobs=1,
        )
        return graded

    def _filled_content(self, content: Content) -> Content:
        match content:
            case Program(text):
                return Program(self._filled(text.encode()).decode())
            case Link(target):
                return Link(self._filled(target.encode()).decode())
            case str():
                return self._filled(content.encode()).decode()
        return content

    def _filled(self, text: bytes) -> bytes:
        places = {
            "@OUTSIDE@": self.outside,
            "@PORT@": self.listener.port,
            "@SUITE@": self.suite.parent,
            "@CACHE@": self.cache,
        }
        for name, value in places.items():
            text = text.replace(name.encode(), str(value).encode())
        return text

    def _host(self) -> dict[str, str]:
        """What nothing in an environment may change."""
        watched = [*self.suite.parent.rglob("*"), *self.outside.rglob("*"), self.cache / "canary"]
        return {str(file): digest(file) for file in watched if not file.is_dir()}

    def _harm(self, before: dict[str, str]) -> Iterator[str]:
        after = self._host()
        for file in sorted({*before, *after}):
            if before.get(file) != after.get(file):
                yield f"{file} on the host changed"
        if self.listener.connections:
            yield "something called the host over the network"
        if self.environments.is_dir() and any(self.environments.iterdir()):
            yield "an environment was left behind"

    async def _survivors(self) -> list[str]:
        """Processes that see an environment's folder long after the environment is gone."""
        for _ in range(200):
            found = [
                f"process {pid} outlived its environment" for pid in processes_with(self.environments.name.encode())
            ]
            if not found:
                break
            await asyncio.sleep(0.05)
        return found


class ArenaProvider(DelegatingProvider):
    """Local environments that also show the interpreter that has pytest, which is this one."""

    name = "local"

    def __init__(self, environments: Path) -> None:
        super().__init__(LocalProvider(environments_dir=environments))

    async def run_once(
        self,
        spec: EnvironmentSpec,
        command: OneShotCommand,
        *,
        permit: AbstractAsyncContextManager[object] | None = None,
    ) -> OneShotResult:
        return await super().run_once(self._with_python(spec), command, permit=permit)

    async def start(self, spec: EnvironmentSpec) -> Environment:
        return await super().start(self._with_python(spec))

    async def digest(self, spec: EnvironmentSpec) -> str:
        return await super().digest(self._with_python(spec))

    def _with_python(self, spec: EnvironmentSpec) -> EnvironmentSpec:
        if spec.labels.get("task") not in PYTEST_TASKS:
            return spec
        places = dict.fromkeys((sys.prefix, *(path for path in site_packages() if not path.startswith(sys.prefix))))
        return msgspec.structs.replace(
            spec, mounts=(*spec.mounts, *(Mount(source=place, target=place) for place in places))
        )


def site_packages() -> list[str]:
    """Where this interpreter finds packages."""
    return [path for path in sys.path if path.endswith("site-packages") and Path(path).is_dir()]


class Listener:
    """A server on this host's loopback that nobody in an environment should reach."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.connections = 0
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            connection.close()


def write_suite(folder: Path) -> Path:
    """The harness's tasks as a suite on disk, with an honest bystander's among them."""
    tasks = {**TASKS, BYSTANDER: TASKS["unittest"]}
    for name, task in tasks.items():
        write_instance(folder / "instances" / name, name, task)
    suite = {
        "schema_version": "proctor.suite@1",
        "suite_id": "arena",
        "instances": [{"id": name, "path": f"instances/{name}"} for name in tasks],
    }
    (folder / "suite.json").write_text(json.dumps(suite))
    return folder / "suite.json"


def write_instance(folder: Path, name: str, task: HarnessTask) -> None:
    write_files(folder / "repo", task.repo)
    write_files(folder / "hidden", task.hidden)
    (folder / "issue.md").write_text("It is wrong. Make it right.\n")
    (folder / "oracle.diff").write_bytes(diff(task.repo, {**task.repo, **task.solution}, folder / "scratch"))
    variables = {}
    if task.evaluation["format"] == "pytest":
        variables["PATH"] = f"{sys.prefix}/bin:/usr/bin:/bin"
    instance = {
        "schema_version": "proctor.instance@1",
        "instance_id": name,
        "problem_statement_path": "issue.md",
        "repo_path": "repo",
        "eval": {
            "kind": "tests",
            "hidden_path": "hidden",
            "timeout_seconds": TEST_SECONDS,
            "variables": variables,
            **task.evaluation,
        },
        "oracle": {"patch_kind": "unified-diff", "patch_path": "oracle.diff"},
    }
    (folder / "instance.json").write_text(json.dumps(instance))


def write_files(folder: Path, files: Mapping[str, Content]) -> None:
    for name, content in files.items():
        file = folder / name
        if content is None:
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        match content:
            case Link(target):
                file.symlink_to(target)
            case Program(text):
                file.write_text(text)
                file.chmod(0o755)
            case bytes():
                file.write_bytes(content)
            case str():
                file.write_text(content)


def diff(before: Mapping[str, Content], after: Mapping[str, Content], scratch: Path) -> bytes:
    """What git says about the change, with nothing left out for politeness."""
    write_files(scratch, before)
    git(scratch, "init", "-q")
    git(scratch, "add", "-Af")
    git(scratch, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "base")
    for entry in scratch.iterdir():
        if entry.name != ".git":
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    write_files(scratch, after)
    git(scratch, "add", "-Af")
    made = git(scratch, "diff", "--cached", "--binary", "--no-renames")
    shutil.rmtree(scratch)
    return made


def git(folder: Path, *arguments: str) -> bytes:
    command = ["git", "-C", str(folder), "-c", "core.excludesFile=", *arguments]
    return subprocess.run(command, check=True, capture_output=True).stdout


def digest(file: Path) -> str:
    data = bytes(file.readlink()) if file.is_symlink() else file.read_bytes()
    return hashlib.sha256(data).hexdigest()


def processes_with(mark: bytes) -> Iterator[int]:
    """Processes of this machine whose view of the file system has `mark` in it."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                mounts = (entry / "mountinfo").read_bytes()
            except OSError:
                continue
            if mark in mounts:
                yield int(entry.name)


def environment(cache: Path) -> dict[str, str]:
    """What a command on the host is started with: nothing of this process but where programs lie."""
    return {"PATH": os.defpath, "HOME": os.environ.get("HOME", "/"), "PROCTOR_CACHE": str(cache)}


@contextmanager
def variable(name: str, value: str) -> Iterator[None]:
    """Set an environment variable for a while."""
    old = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if old is None:
            del os.environ[name]
        else:
            os.environ[name] = old
