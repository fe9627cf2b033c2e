import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from proctor.cli import COMMANDS, help_file
from proctor.cli.dispatch import dispatch
from proctor.cli.help_pages import help_pages
from proctor.cli.schema import schema_names
from proctor.results import new_run
from stored_runs import finish, store_trial


def proctor(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-m", "proctor", *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"], ["help"]])
def test_help_lists_every_command(arguments: Sequence[str]) -> None:
    result = proctor(*arguments)
    assert result.returncode == 0
    assert all(name in result.stdout for name in COMMANDS)


@pytest.mark.parametrize("command", ["", "bench run ", "suite add-task ", "runs "])
def test_help_does_not_import_click(command: str) -> None:
    code = f"import sys; sys.argv = 'proctor {command}--help'.split(); from proctor.cli import main\n"
    code += "try: main()\nfinally: print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert f"Usage: proctor {command}" in done.stdout
    assert not {"click", "msgspec", "rich", "asyncio"} & set(done.stdout.split("\n")[-2].split())


def test_the_shipped_help_pages_are_the_generated_ones() -> None:
    generated = {help_file(words): page.split() for words, page in help_pages()}  # versions of click differ in spaces
    folder = Path(help_file([])).parent
    shipped = {str(path): path.read_text(encoding="utf-8").split() for path in folder.iterdir()}
    assert shipped == generated, "run `make schemas`"


def test_a_narrow_terminal_gets_a_help_page_that_fits() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "proctor", "bench", "run", "--help"],
        env={**os.environ, "COLUMNS": "60"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert max(map(len, done.stdout.splitlines())) <= 60
    shipped = Path(help_file(["bench", "run"])).read_text(encoding="utf-8")
    assert "".join(done.stdout.split()) == "".join(shipped.split())


@pytest.mark.parametrize("words", [["bench.run"], ["bench", ".."], ["bench", "run.txt"], ["bench", "runs"]])
def test_what_is_no_command_has_no_help_page(words: list[str]) -> None:
    assert proctor(*words, "--help").returncode == 2


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
    assert (result.returncode, result.stderr) == (0, "")


def test_a_group_without_a_command_prints_its_help_page_and_exits_2() -> None:
    result = proctor("bench")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("Usage: proctor bench ")
    assert "; see `" not in result.stderr


RUN = "bench run core-mini --agent nop --isolation off"


@pytest.mark.parametrize("streams", ["2> >(true)", "2>/dev/full", "2>&-", "&> >(true)"])
def test_a_run_goes_on_to_its_end_when_nobody_listens(tmp_path: Path, streams: str) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PROCTOR_RESULTS": str(tmp_path / "results")}
    command = f"{sys.executable} -m proctor {RUN} --limit 1 {streams}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done
    assert "Exception" not in done.stderr
    assert len(list((tmp_path / "results").glob("*/*/trials/*.json"))) == 1


def test_output_that_cannot_be_written_is_one_sentence() -> None:
    result = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m proctor schema >/dev/full"], capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stderr) == (12, "proctor: No space left on device\n")


@pytest.mark.parametrize("option", ["--help", "--version"])
@pytest.mark.parametrize("errors", ["", "2>/dev/full"])
def test_a_page_that_cannot_be_written_is_one_sentence_too(option: str, errors: str) -> None:
    result = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m proctor {option} >/dev/full {errors}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stderr) == (12, "" if errors else "proctor: No space left on device\n")


@pytest.mark.parametrize("module", ["click", "msgspec"])
def test_ctrl_c_while_modules_are_imported_is_one_sentence(tmp_path: Path, module: str) -> None:
    """The module is one that interrupts its importer, as a terminal does."""
    (tmp_path / f"{module}.py").write_text(
        "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)\n"
    )
    result = subprocess.run(
        [sys.executable, "-m", "proctor", "doctor"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "proctor: interrupted\n")


def test_in_an_ascii_locale_paths_and_names_are_what_they_are(tmp_path: Path) -> None:
    folder = tmp_path / "größe"
    store = new_run("toy", root=folder / "results")
    store_trial(store, "tâche", logs=False)
    finish(store)
    env = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    env |= {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}

    def run(*arguments: str) -> tuple[int, str, str]:
        command = [sys.executable, "-m", "proctor", "bench", *arguments]
        done = subprocess.run(command, capture_output=True, check=False, cwd=folder, env=env)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    sentence = f"proctor: {folder}/results: there are no runs of 'naïve'; make one with `proctor bench run`\n"
    assert run("report", "naïve") == (2, "", sentence)
    code, shown, errors = run("show", "toy/run-001")
    assert (code, errors) == (0, "")
    assert "\ntâche   resolved   solved" in shown


def test_schema_prints_what_is_shipped() -> None:
    assert proctor("schema").stdout.split() == schema_names()
    for name in schema_names()[::6]:
        assert json.loads(proctor("schema", name).stdout)["$schema"]
