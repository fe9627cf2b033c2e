import json
import subprocess
import sys
from collections.abc import Sequence

import pytest

from proctor.cli import COMMANDS
from proctor.cli.dispatch import dispatch
from proctor.cli.schema import schema_names


def proctor(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-m", "proctor", *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"], ["help"]])
def test_help_lists_every_command(arguments: Sequence[str]) -> None:
    result = proctor(*arguments)
    assert result.returncode == 0
    assert all(name in result.stdout for name in COMMANDS)


def test_help_does_not_import_click() -> None:
    code = "import sys; sys.argv = ['proctor', '--help']; from proctor.cli import main; main(); print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"click", "msgspec", "rich", "asyncio"} & set(modules)


def test_version() -> None:
    assert proctor("--version").stdout.startswith("proctor 0.")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["sandbx"], "proctor: no such command: 'sandbx'; did you mean `proctor sandbox`?\n"),
        (["schema", "nope"], "proctor: no schema is called 'nope'; choose one of: "),
        (["schema", "--nope"], "proctor: No such option '--nope'; see `proctor schema --help`\n"),
        (["schema", "a", "b"], "proctor: Got unexpected extra argument (b); see `proctor schema --help`\n"),
    ],
)
def test_wrong_usage_is_one_sentence_and_exit_2(arguments: list[str], sentence: str) -> None:
    result = proctor(*arguments)
    assert result.returncode == 2
    assert result.stderr.startswith(sentence)
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_every_command_of_the_table_has_a_help_page(capsys: pytest.CaptureFixture[str]) -> None:
    for name in COMMANDS:
        assert dispatch([name, "--help"]) == 0
        assert f"Usage: proctor {name}" in capsys.readouterr().out


def test_a_closed_pipe_is_not_an_error() -> None:
    result = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {sys.executable} -m proctor schema task-result | head -c 1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stderr == ""


def test_schema_prints_what_is_shipped() -> None:
    assert proctor("schema").stdout.split() == schema_names()
    for name in schema_names():
        assert json.loads(proctor("schema", name).stdout)["$schema"]
