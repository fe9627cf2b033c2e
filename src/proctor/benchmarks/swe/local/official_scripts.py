"""Official shell scripts of an instance, adapted to a virtual environment, no network, and this machine's locales."""

import re
import shlex
from collections.abc import Iterator
from typing import Final

from proctor.benchmarks.python_envs import VENV_DIR
from proctor.benchmarks.swe.local.locales import LocaleCheck, has_locale, missing_locales, with_present_locales
from proctor.core.record import Record

# Build requirements of the project, beside the environment: it is installed again for each test run, without network.
BUILD_DIR: Final = f"{VENV_DIR}/proctor-build"
ACTIVATE: Final = f"export VIRTUAL_ENV={VENV_DIR} PATH={VENV_DIR}/bin:$PATH"
_CONDA: Final = "/opt/miniconda3"
_SETUP: Final = re.compile(
    r'^echo "Current environment[^\n]*\n(?P<lines>.*?)^# Configure git', re.MULTILINE | re.DOTALL
)
_HEREDOC: Final = re.compile(r"<<-?\s*(['\"]?)(?P<end>\w+)\1")
_PIP: Final = re.compile(r"^(?:python3? -m )?pip3? install\b")
_APT: Final = re.compile(r"\bapt(?:-get)?\b[^&|;]*\binstall\b(?P<words>[^&|;]*)")
_SYSTEM_COMMAND: Final = re.compile(r"\bapt(?:-get)?\b|\blocale-gen\b|/etc/locale\.gen")
# In every image, or of no account for tests.
_IGNORED_PACKAGES: Final = frozenset({"locales", "tzdata", "pkg-config", "build-essential", "git", "wget", "curl"})


class ImageSetup(Record):
    """What the official image does with the repository.

    Attributes:
        lines: shell lines: edits, and the project's installation.
        system_packages: Debian packages that it installs for that.
    """

    lines: tuple[str, ...]
    system_packages: tuple[str, ...]


def image_setup(dockerfile: str, eval_script: str) -> ImageSetup:
    """From the official Dockerfile; without one, the lines of the eval script that install the project."""
    match = _SETUP.search(dockerfile)
    if match is None:
        return ImageSetup(lines=tuple(line for line in _commands(eval_script) if _PIP.match(line)), system_packages=())
    lines = [line.strip() for line in match["lines"].splitlines() if line.strip() and line.strip() != "cd /testbed"]
    packages = [
        word.partition("=")[0]
        for line in lines
        if not line.endswith("|| true")
        for install in _APT.finditer(line)
        for word in install["words"].split()
        if not word.startswith("-")
    ]
    return ImageSetup(
        lines=tuple(line for line in lines if not _SYSTEM_COMMAND.search(line)),
        system_packages=tuple(sorted(set(packages) - _IGNORED_PACKAGES)),
    )


def adapt_eval_script(script: str, *, has: LocaleCheck = has_locale) -> str:
    """An official eval script for such an environment; here-documents, such as the test patch, stay as they are."""
    lines: list[str] = []
    activated = False
    for line, is_command in _lines(script):
        if not is_command:
            lines.append(line)
        elif line.startswith(f"source {_CONDA}"):
            lines += [] if activated else [ACTIVATE]
            activated = True
        elif line.startswith("conda activate"):
            continue
        elif _PIP.match(line):
            lines.append(_reinstall(line))
        else:
            lines.append(with_present_locales(line.replace(f"{_CONDA}/envs/testbed", VENV_DIR), has))
    return "\n".join(lines)


def locale_deviations(script: str, *, has: LocaleCheck = has_locale) -> tuple[str, ...]:
    """The UTF-8 locales of a script in whose place this machine has none."""
    names = dict.fromkeys(name for line in _commands(script) for name in missing_locales(line, has))
    return tuple(f"no UTF-8 locale instead of {name}" for name in names)


def installs_project(line: str) -> bool:
    """Whether a line of pip's installs the project itself."""
    try:
        words = shlex.split(line)
    except ValueError:
        return False
    return any(word == "." or word.startswith((".[", "./")) for word in words)


def _reinstall(line: str) -> str:
    """The project is installed again from its files alone; all else has been installed when it was set up."""
    if not installs_project(line):
        return f": {shlex.quote('installed when this was set up: ' + line)}"
    flags = [flag for flag in ("--no-deps", "--no-build-isolation") if flag not in line]
    install, _, rest = line.partition(" install")
    return f"PYTHONPATH={BUILD_DIR} {install} install {' '.join(flags)}{rest}"


def _commands(script: str) -> Iterator[str]:
    return (line for line, is_command in _lines(script) if is_command)


def _lines(script: str) -> Iterator[tuple[str, bool]]:
    """The lines of a script, and whether each is a command rather than part of a here-document."""
    end: str | None = None
    for line in script.split("\n"):
        if end is not None:
            yield line, False
            end = None if line.strip() == end else end
            continue
        yield line, True
        match = _HEREDOC.search(line)
        end = match["end"] if match else None
