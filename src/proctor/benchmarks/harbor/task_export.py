"""Suites as tasks of Harbor's format: `bench export SUITE --format harbor-tasks`.

A task's verifier has an environment of its own: it is given the agent's workspace and nothing else, puts the tests and
what runs them back, and writes a full reward when every labelled test passes.
"""

import importlib.resources
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any, Final

from proctor.benchmarks.suites.documents import decode_document, read_bytes
from proctor.benchmarks.suites.format import DEPS_DIR, ENVIRONMENT_FILE, SuiteEnvironmentFile
from proctor.benchmarks.suites.installed import FILES_DIR, IMAGE_DIR, UV_VERSION
from proctor.benchmarks.suites.load import load_suite
from proctor.benchmarks.suites.tests_instance import TestsInstance
from proctor.core.errors import UsageError
from proctor.core.submission import PatchKind
from proctor.core.trees import file_paths
from proctor.grading import is_protected
from proctor.results import RunStore
from proctor.results.formats import ExportOptions, ExportResult, ExternalRun, Format, ImportOptions

WORKDIR: Final = "/workspace"
DEFAULT_IMAGE: Final = "python:3.12-bookworm"
AGENT_SECONDS: Final = 1800.0
_TEST_SECONDS: Final = 300.0
_GRACE_SECONDS: Final = 300.0
_IMAGES: Final = {
    "python": "python:{0}-bookworm",
    "node": "node:{0}-bookworm",
    "go": "golang:{0}-bookworm",
    "rust": "rust:{0}-bookworm",
    "java": "eclipse-temurin:{0}-jdk",
}
_IMAGE_NAME: Final = re.compile(r"[\w][\w./:@-]*", re.ASCII)
_PLAN: Final = (
    *("format", "arguments", "command", "setup", "variables", "python", "paths", "config_path", "autoload", "options"),
    *("services", "fail_to_pass", "pass_to_pass"),
)
_SETUP_DIR: Final = "proctor"  # in the build's context, beside the files that the suite's own Dockerfile copies
# The check is a program in Python, and the solution a patch.
_TOOLS: Final = (
    "RUN { { command -v python3 || command -v python; } && { command -v git || command -v patch; }; } >/dev/null || "
    "{ apt-get update && apt-get install --yes --no-install-recommends python3 git; }"
)
_TEST_SCRIPT: Final = f"""#!/bin/bash
cd {WORKDIR} || exit 1
echo 0 >/logs/verifier/reward.txt
exec "$(command -v python3 || command -v python)" /tests/check.py
"""
_SOLVE: Final = f"""#!/bin/bash
cd {WORKDIR} || exit 1
if command -v git >/dev/null; then
  GIT_CEILING_DIRECTORIES=/ git apply --whitespace=nowarn /solution/oracle.diff
else
  patch -p1 --no-backup-if-mismatch </solution/oracle.diff
fi
"""


class HarborTasksFormat(Format):
    """A folder of tasks, one for each of a suite's."""

    about = "a suite's tasks in Harbor's task format"
    exports_tasks = True

    def export_tasks(self, suite: str, target: Path, options: ExportOptions) -> ExportResult:
        """Write a suite's tasks below `target`."""
        if options.image is not None and not _IMAGE_NAME.fullmatch(options.image):
            raise UsageError(f"{options.image!r} is not the name of an image")
        loaded = load_suite(suite)
        left_out = [f"{bad.id}: it is invalid" for bad in loaded.invalid]
        written = 0
        for instance in loaded.instances:
            why = _not_exportable(instance)
            if why is not None:
                left_out.append(f"{instance.id}: {why}")
                continue
            assert isinstance(instance, TestsInstance)  # noqa: S101 - asked just now
            _write_task(instance, loaded.id, target / instance.id, options)
            written += 1
        if not written:
            raise UsageError("no task of the suite can be a task of Harbor's", where=loaded.path, details=left_out)
        return ExportResult(files=sum(1 for path in target.rglob("*") if path.is_file()), left_out=tuple(left_out))

    def export(self, run: RunStore, target: Path, options: ExportOptions) -> ExportResult:
        """A run is no set of tasks."""
        raise UsageError("this format is for suites, not for runs", fix="give a suite; for runs, use --format harbor")

    def read(self, source: Path, options: ImportOptions) -> ExternalRun:
        """Tasks are no run."""
        raise UsageError("tasks are no run", where=source, fix="run them: `proctor bench run --suite PATH`")


def _not_exportable(instance: object) -> str | None:
    if not isinstance(instance, TestsInstance):
        return "its tests are run by a program of its own kind"
    if instance.oracle is None or instance.file.oracle is None:
        return "it has no oracle"
    if instance.file.oracle.patch_kind is not PatchKind.UNIFIED_DIFF:
        return f"its oracle is a {instance.file.oracle.patch_kind.value}"
    return None


def _write_task(instance: TestsInstance, suite: str, folder: Path, options: ExportOptions) -> None:
    environment, tests, solution = (folder / name for name in ("environment", "tests", "solution"))
    for place in (environment, tests, solution):
        place.mkdir(parents=True)
    shutil.copytree(instance.repo, environment / "repo", symlinks=True)
    (environment / "Dockerfile").write_text(_dockerfile(instance, environment, options), encoding="utf-8")
    (folder / "instruction.md").write_text(instance.statement(), encoding="utf-8")
    (folder / "task.toml").write_text(_task_toml(instance, suite), encoding="utf-8")
    _write_script(tests / "test.sh", _TEST_SCRIPT)
    _write_tests(instance, tests)
    _write_script(solution / "solve.sh", _SOLVE)
    shutil.copyfile(str(instance.oracle), solution / "oracle.diff")


def _write_script(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")
    file.chmod(0o755)


def _write_tests(instance: TestsInstance, tests: Path) -> None:
    """The plan, what runs it, and the files that are put back before it runs."""
    package = importlib.resources.files("proctor")
    for source in ("benchmarks/harbor/inside/check.py", "grading/protected_patterns.py"):
        (tests / Path(source).name).write_bytes((package / source).read_bytes())
    own = instance.file.eval
    plan: dict[str, Any] = {name: getattr(own, name) for name in _PLAN}
    plan["timeout"] = own.timeout_seconds or _TEST_SECONDS
    plan["protected"] = instance.protected
    (tests / "plan.json").write_text(json.dumps(plan, indent=1), encoding="utf-8")
    restored = tests / "restore"
    for path in map(os.fsdecode, file_paths(instance.repo)):
        if is_protected(path, instance.protected):
            _copy(instance.repo / path, restored / path)
    if instance.hidden is not None:
        for path in map(os.fsdecode, file_paths(instance.hidden)):
            _copy(instance.hidden / path, restored / path)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    shutil.copy2(source, target, follow_symlinks=False)


def _dockerfile(instance: TestsInstance, context: Path, options: ExportOptions) -> str:
    """The image: the language's, or what the suite describes; what the tests need installed; and the workspace."""
    installed = instance.environment
    if installed is None:
        image = instance.file.image or options.image or DEFAULT_IMAGE
        return f"FROM {image}\nWORKDIR {WORKDIR}\nCOPY repo {WORKDIR}\n"
    file = decode_document(
        read_bytes(installed / ENVIRONMENT_FILE), SuiteEnvironmentFile, file=str(installed / ENVIRONMENT_FILE)
    )
    setup = context / _SETUP_DIR
    shutil.copytree(installed, setup / "files", symlinks=True)
    shutil.rmtree(setup / "files" / IMAGE_DIR, ignore_errors=True)
    (setup / "install.sh").write_text(f"set -e\n{file.install}\n", encoding="utf-8")
    lines = [*_base_image(instance, installed, file, context, options), _TOOLS, f"WORKDIR {WORKDIR}"]
    if "uv " in file.install:
        lines.append(
            f"RUN python3 -m pip install --break-system-packages uv=={UV_VERSION} || python3 -m pip install uv"
        )
    lines += [f"COPY {_SETUP_DIR}/files {FILES_DIR}", f"COPY {_SETUP_DIR}/install.sh /install.sh"]
    lines += [f"ENV PYTHON=python{file.runtimes.get('python', '3')}", *map(_env_line, file.variables.items())]
    # Installing lays the manifests of the solved tree over the workspace: nothing of that stays in the image.
    clear = f"rm -rf /install.sh {FILES_DIR} && find {WORKDIR} -mindepth 1 -delete"
    copy = f"COPY repo {WORKDIR}"
    lines += [copy, f"RUN mkdir -p {DEPS_DIR} && bash /install.sh && {clear}", copy]
    lines += [
        f"RUN mkdir -p $(dirname {place}) && ln -sfn {DEPS_DIR}/{name} {place}" for name, place in file.shown.items()
    ]
    lines.append(f"RUN if [ -d {DEPS_DIR}/tree ]; then cp -an {DEPS_DIR}/tree/. {WORKDIR}/; fi")
    return "\n".join(lines) + "\n"


def _base_image(
    instance: TestsInstance, installed: Path, file: SuiteEnvironmentFile, context: Path, options: ExportOptions
) -> list[str]:
    """What the image is built on: a named one, the Dockerfile of the suite's environment, or the language's own."""
    described = installed / IMAGE_DIR / "Dockerfile"
    if described.is_file() and not instance.file.image:
        shutil.copytree(described.parent, context, symlinks=True, dirs_exist_ok=True)
        return [described.read_text(encoding="utf-8").rstrip(), "USER root", "ENTRYPOINT []"]
    runtime = next(((name, version) for name, version in file.runtimes.items() if name in _IMAGES), None)
    known = DEFAULT_IMAGE if runtime is None or runtime[1] == "*" else _IMAGES[runtime[0]].format(runtime[1])
    return [f"FROM {instance.file.image or file.image or options.image or known}"]


def _env_line(variable: tuple[str, str]) -> str:
    """A variable for all that follows; folders of the PATH come before the image's own."""
    name, value = variable
    escaped = re.sub(r'(["$\\])', r"\\\1", value)
    return f'ENV {name}="{escaped}:$PATH"' if name == "PATH" else f'ENV {name}="{escaped}"'


def _task_toml(instance: TestsInstance, suite: str) -> str:
    file = instance.file
    metadata = {
        "difficulty": file.difficulty or "medium",
        "category": file.language or "software",
        "tags": list(file.tags),
        "suite": suite,
        "instance_id": instance.id,
    }
    seconds = (file.eval.timeout_seconds or _TEST_SECONDS) + _GRACE_SECONDS
    lines = [
        'schema_version = "1.4"',
        f'artifacts = [{{ source = "{WORKDIR}", exclude = [".git", "__pycache__"] }}]',
        "",
        "[metadata]",
        # Strings and lists of strings of JSON are TOML too.
        *(f"{name} = {json.dumps(value)}" for name, value in metadata.items()),
        "",
        "[agent]",
        f"timeout_sec = {AGENT_SECONDS}",
        "",
        "[verifier]",
        f"timeout_sec = {seconds}",
        'environment_mode = "separate"',
        "",
    ]
    return "\n".join(lines)
