"""How the tests of a task are run: from a plan to one command."""

import marshal
import re
import secrets
import shlex
import tomllib
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import cache
from importlib import resources
from importlib.util import MAGIC_NUMBER
from pathlib import PurePosixPath
from types import CodeType
from typing import Final

from msgspec import field

from proctor.core.environment import EnvironmentRequirement, required_program
from proctor.core.errors import InvalidData
from proctor.core.record import Record

REPORT_PLACEHOLDER: Final = "{report}"
EXIT_NO_REPORT_DIRECTORY: Final = 125
EXIT_NO_SERVICE: Final = 124


class TestFormat(StrEnum):
    """The forms in which a test step can give its results."""

    __test__ = False

    PYTEST = "pytest"
    UNITTEST = "unittest"
    PROGRAM = "program"  # a program of the workspace that runs its tests with unittest
    FUNCTIONS = "functions"  # functions that raise when they fail
    JUNIT = "junit"
    TAP = "tap"
    GO = "go-test-json"
    EXIT_CODE = "exit-code"


REPORTER_FORMATS: Final = frozenset({TestFormat.PYTEST, TestFormat.UNITTEST, TestFormat.PROGRAM, TestFormat.FUNCTIONS})


class ConfigFile(Record):
    """A file that configures pytest, by the name by which pytest knows how to read it."""

    name: str
    text: str


class TestPlan(Record):
    """A test step.

    `pytest`, `unittest`, `program` and `functions` are run by our reporter; every other format is a `command`, in which
    ``{report}`` stands for a fresh path that it must write its results to. Without ``{report}`` they are read from its
    stdout.

    Attributes:
        targets: what is tested: files and directories (pytest), files, directories and dotted names (unittest), files
            (functions); for a program, its path and its arguments.
        python: the interpreter that runs the tests; name one that lies outside the workspace.
        paths: directories of the workspace to import from, as in PYTHONPATH.
        pattern: which files unittest looks into.
        config: what pytest reads in place of the workspace's own files; see `pytest_config`.
        plugins: pytest plugins to load; all that are installed when `autoload` is on.
        options: more arguments for pytest.
        services: shell commands that start what the tests need, each in the workspace, and return.
    """

    __test__ = False

    format: TestFormat
    command: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    python: str = "python3"
    paths: tuple[str, ...] = (".",)
    pattern: str = "test*.py"
    config: ConfigFile | None = None
    plugins: tuple[str, ...] = ()
    autoload: bool = False
    options: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)


def plan_requirements(plan: TestPlan) -> tuple[EnvironmentRequirement, ...]:
    """What an environment must have so that the tests can be started, but for what the workspace may bring."""
    if plan.format not in REPORTER_FORMATS:
        return () if "PATH" in plan.variables else bare_program(plan.command)
    python = required_program(plan.python)
    if plan.format is not TestFormat.PYTEST or "PYTHONPATH" in plan.variables:
        return (python,)
    command = (plan.python, "-I", "-c", "import pytest")
    return python, EnvironmentRequirement(name=f"pytest for {plan.python}", command=command)


def bare_program(command: Sequence[str]) -> tuple[EnvironmentRequirement, ...]:
    """The program of a command, where it is looked for on the PATH."""
    return (required_program(command[0]),) if command and "/" not in command[0] else ()


class TestCommand(Record):
    """A command ready to run, once, and what is needed to read its outcome.

    Attributes:
        report_path: the fresh path inside the environment to fetch afterwards; None when the results are on stdout.
    """

    format: TestFormat
    argv: tuple[str, ...]
    stdin: bytes
    variables: dict[str, str]
    report_path: str | None
    key: bytes


def build_test_command(plan: TestPlan, *, workdir: str) -> TestCommand:
    """Turn a plan into one command. Every call makes a new key and a new path: nothing can be left over for it."""
    key = secrets.token_bytes(32)
    if plan.format in REPORTER_FORMATS:
        return TestCommand(
            format=plan.format,
            argv=after_services(plan, (plan.python, "-I", "-S", "-B", "-c", _SUPERVISOR_BOOT), workdir=workdir),
            stdin=_supervisor_program(plan, workdir, key),
            variables=dict(plan.variables),
            report_path=None,
            key=key,
        )
    if not plan.command:
        raise InvalidData(f"a test step of format {plan.format.value!r} needs a command", fix="name it in `command`")
    if not any(REPORT_PLACEHOLDER in word for word in plan.command):
        return _external_command(plan, after_services(plan, plan.command, workdir=workdir), None, key)
    directory = f"/tmp/proctor-{secrets.token_hex(16)}"  # noqa: S108 - inside the environment, and unguessable
    report = f"{directory}/report"
    command = tuple(word.replace(REPORT_PLACEHOLDER, report) for word in plan.command)
    make = f'mkdir -m 700 "$0" || exit {EXIT_NO_REPORT_DIRECTORY}; exec "$@"'
    argv = after_services(plan, ("sh", "-c", make, directory, *command), workdir=workdir)
    return _external_command(plan, argv, report, key)


def _external_command(plan: TestPlan, argv: tuple[str, ...], report: str | None, key: bytes) -> TestCommand:
    return TestCommand(
        format=plan.format, argv=argv, stdin=b"", variables=dict(plan.variables), report_path=report, key=key
    )


def after_services(plan: TestPlan, argv: tuple[str, ...], *, workdir: str) -> tuple[str, ...]:
    """A command that starts the plan's services first. They get no descriptor through which tests are reported."""
    if not plan.services:
        return argv
    lines = [f"cd {shlex.quote(workdir)}"]
    for service in plan.services:
        starter = (plan.python, "-I", "-S", "-c", _SERVICE_BOOT) if plan.format in REPORTER_FORMATS else ("sh", "-c")
        failed = f"{{ cat {_SERVICE_LOG} >&2; exit {EXIT_NO_SERVICE}; }}"
        lines.append(f"{shlex.join((*starter, service))} </dev/null >{_SERVICE_LOG} 2>&1 || {failed}")
    return ("sh", "-c", "\n".join((*lines, 'cd "$OLDPWD"', 'exec "$@"')), "sh", *argv)


_SERVICE_BOOT: Final = "import os, sys; os.closerange(3, 4096); os.execv('/bin/sh', ['sh', '-c', sys.argv[1]])"
_SERVICE_LOG: Final = "/tmp/proctor-services.log"  # noqa: S108 - inside the environment
_SUPERVISOR_BOOT: Final = "import sys; exec(compile(sys.stdin.buffer.read(), '<proctor>', 'exec'))"


def worker_program(plan: TestPlan, *, workdir: str) -> bytes:
    """The reporter's worker and its job: compiled for Pythons like this one, and as a text that every Python reads."""
    job: dict[str, object] = {
        "workdir": workdir,
        "targets": list(plan.targets),
        "paths": list(plan.paths),
        "pattern": plan.pattern,
        "plugins": list(plan.plugins),
        "autoload": plan.autoload,
        "options": list(plan.options),
    }
    if plan.format is TestFormat.PYTEST:
        config = plan.config or ConfigFile(name="pytest.ini", text="[pytest]\n")
        job |= {"config_name": PurePosixPath(config.name).name, "config_text": config.text}
    compiled, text = _reporter(plan.format)
    marshalled = compiled + marshal.dumps(job)
    return b"%s %d %s(%s, %a)" % (MAGIC_NUMBER.hex().encode(), len(marshalled), marshalled, text, job)


@cache
def _reporter(form: TestFormat) -> tuple[bytes, bytes]:
    """The parts of the reporter and its worker: marshalled, and as two expressions."""
    files = {
        "runner": f"run_{form.value}.py",
        "tamper_watch": "tamper_watch.py",
        "result": "unittest_result.py",
    }
    if form in {TestFormat.PROGRAM, TestFormat.FUNCTIONS}:
        files["unittest"] = "run_unittest.py"
    sources = {part: _source(file) for part, file in files.items()}
    worker = _source("worker.py") + "\nmain(JOB)\n"
    codes = {part: _compiled(source) for part, source in sources.items()}
    return marshal.dumps((codes, _compiled(worker))), f"{sources!a}, {worker!a}".encode()


def _compiled(source: str) -> CodeType:
    return compile(source, "<proctor>", "exec", dont_inherit=True)


def _supervisor_program(plan: TestPlan, workdir: str, key: bytes) -> bytes:
    """The supervisor as one Python program, with the worker's in it."""
    call = f"sys.exit(main({key.hex()!a}, {worker_program(plan, workdir=workdir)!a}))"
    return f"{_source('supervisor.py')}\n{call}\n".encode()


@cache
def _source(name: str) -> str:
    return (resources.files("proctor.grading") / "inside" / name).read_text(encoding="utf-8")


def pytest_config(read: Callable[[str], bytes | None]) -> ConfigFile | None:
    """The file that pytest would take its configuration from in a pristine tree; None when there is none.

    `read` gives a file of the tree's root, or None. The submission's own copies must not be read here.
    """
    for name, applies in _CONFIG_FILES:
        data = read(name)
        if data is not None and applies(data):
            return ConfigFile(name=name, text=data.decode("utf-8", "surrogateescape"))
    return None


def _always(_: bytes) -> bool:
    return True


def _has_pytest_table(data: bytes) -> bool:
    try:
        tool = tomllib.loads(data.decode("utf-8", "replace")).get("tool")
    except tomllib.TOMLDecodeError:
        return False
    return isinstance(tool, dict) and "pytest" in tool


def _has_section(name: str) -> Callable[[bytes], bool]:
    header = re.compile(rb"^\[" + re.escape(name.encode()) + rb"\]", re.MULTILINE)
    return lambda data: header.search(data) is not None


_CONFIG_FILES: Final[tuple[tuple[str, Callable[[bytes], bool]], ...]] = (
    ("pytest.toml", _always),
    (".pytest.toml", _always),
    ("pytest.ini", _always),
    (".pytest.ini", _always),
    ("pyproject.toml", _has_pytest_table),
    ("tox.ini", _has_section("pytest")),
    ("setup.cfg", _has_section("tool:pytest")),
)
