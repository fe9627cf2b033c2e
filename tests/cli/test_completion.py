"""Completion, asked for by the real shells."""

import os
import pty
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from proctor.core.causes import Cause
from proctor.results import new_run
from stored_runs import finish, store_trial

Complete = Callable[[str], set[str]]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """A machine with a run, on which `proctor` is a program."""
    store = new_run("toy", root=tmp_path / "results")
    store_trial(store, "some-task", Cause.SOLVED, logs=False)
    finish(store, name="nightly")
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/proctor"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m proctor "$@"\n')
    program.chmod(0o755)
    return {
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "ZDOTDIR": str(tmp_path),
        "PROCTOR_RESULTS": str(tmp_path / "results"),
        "TERM": "dumb",
        "LC_ALL": "C.UTF-8",
    }


@pytest.fixture(params=["bash", "zsh", "fish"])
def complete(request: pytest.FixtureRequest, env: dict[str, str]) -> Complete:
    shell = request.param
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    ask = {"bash": _ask_bash, "zsh": _ask_zsh, "fish": _ask_fish}[shell]
    return lambda line: ask(line, env)


def _ask_bash(line: str, env: dict[str, str]) -> set[str]:
    words = line.split(" ")
    script = f"""source <(proctor completion bash)
        COMP_WORDS=({" ".join(words[:-1])} "{words[-1]}"); COMP_CWORD={len(words) - 1}
        $(complete -p proctor | sed 's/.*-F \\([^ ]*\\).*/\\1/') proctor
        printf '%s\\n' "${{COMPREPLY[@]}}\""""
    return set(_output(["bash", "--norc", "-c", script], env).split("\n")) - {""}


def _ask_fish(line: str, env: dict[str, str]) -> set[str]:
    script = f"proctor completion fish | source; complete -C '{line}'"
    return {found.split("\t")[0] for found in _output(["fish", "--no-config", "-c", script], env).split("\n")} - {""}


def _output(command: list[str], env: dict[str, str]) -> str:
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout


def _ask_zsh(line: str, env: dict[str, str]) -> set[str]:
    """Its line editor completes on a terminal only: the line is typed there, and Tab is pressed."""
    (Path(env["ZDOTDIR"]) / ".zshrc").write_text(
        "PS1='' PS2='' RPS1=''\nautoload -U compinit; compinit -D -u\nsource <(proctor completion zsh)\n"
        # What is found is printed, before the editor would lay it out for the width of the terminal.
        'compadd() { local -a found; builtin compadd -O found "$@"; print -rl -- "<"${^found}">" }\n'
        "finish() { print 'END' }; zle -N finish; bindkey '^X' finish\n"
    )
    ours, theirs = pty.openpty()
    with subprocess.Popen(["zsh", "-i"], stdin=theirs, stdout=theirs, stderr=theirs, env=env) as job:
        os.close(theirs)
        os.write(ours, f"{line}\t\x18".encode())
        seen = b""
        while b"END" not in seen:
            seen += os.read(ours, 65536)
        job.kill()  # it is interactive, and ignores what is gentler
    os.close(ours)
    return set(re.findall(r"<([^<>\r\n]+)>", seen.decode()))


def test_commands_and_options_are_completed(complete: Complete) -> None:
    assert {"bench", "runs", "doctor", "completion"} <= complete("proctor ")
    assert complete("proctor bench re") == {"report", "resume"}
    assert {"--max-cost", "--max-turns", "--max-cost-per-task"} <= complete("proctor bench run --max-")
    assert {"list", "rename", "archive"} <= complete("proctor runs ")


def test_values_are_completed(complete: Complete) -> None:
    assert complete("proctor bench run core") == {"core", "core-mini"}
    assert complete("proctor bench run core-mini --agent cla") == {"claude_code"}
    assert "py_cache_0001" in complete("proctor bench run core-mini --task py_")
    assert complete("proctor bench show ni") == {"nightly"}
    assert complete("proctor bench show nightly so") == {"some-task"}
    assert complete("proctor bench report t") == {"toy"}


def test_runs_are_those_of_the_folder_that_the_line_names(complete: Complete, tmp_path: Path) -> None:
    store = new_run("other", root=tmp_path / "elsewhere")
    store_trial(store, "their-task", Cause.SOLVED, logs=False)
    finish(store, name="theirs")
    folder = tmp_path / "elsewhere"
    assert complete(f"proctor bench show --results {folder} th") == {"theirs"}
    assert complete(f"proctor bench show --results {folder} theirs th") == {"their-task"}
    assert complete(f"proctor runs delete --results={folder} o") == {"other/run-001"}
