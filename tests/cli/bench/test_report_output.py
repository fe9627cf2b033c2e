import json
import os
from pathlib import Path

import msgspec
import pytest

from proctor.cli.dispatch import dispatch
from proctor.core.verdict import Finding
from random_runs import store_run


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("results")
    store_run(root, "run-001", tasks=30, seed=1, odds={"rate": 0.9})
    store_run(root, "run-002", tasks=30, seed=2, odds={"rate": 0.1}, concurrency=8)
    return root


@pytest.fixture(autouse=True)
def _here(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROCTOR_RESULTS", str(results))


@pytest.mark.parametrize("form", ["--json", "--csv"])
def test_json_and_csv_leave_warnings_and_failed_gates_on_stderr(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["bench", "compare", "run-001", "run-002", "--gate", "not worse", form]) == 10
    assert capsys.readouterr().err.splitlines() == [
        "run-001 and run-002 differ: concurrency: 1 and 8",
        "run-002 against run-001: 'not worse' does not hold, shown to be worse.",
    ]


def test_a_page_without_a_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["bench", "report", "core", "--html", ""]) == 2
    assert "the page needs a file name" in capsys.readouterr().err


def test_importing_a_missing_file_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["bench", "import", "nowhere", "--format", "harbor"]) == 2
    assert "'nowhere' does not exist" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--trial", "--attempt"])
def test_a_trial_is_of_one_task(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["bench", "show", "run-001", option, "2"]) == 2
    assert "--trial is for one task; name the TASK too" in capsys.readouterr().err


def test_what_an_agent_wrote_does_not_control_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PROCTOR_RESULTS", str(tmp_path))
    store = store_run(tmp_path, "run-001", tasks=1, odds={"rate": 1.0})
    (result,) = store.results()
    assert result.verdict is not None
    (test, *_), (attempt,) = result.verdict.tests, result.attempts
    verdict = msgspec.structs.replace(
        result.verdict,
        reason="fine\x07\u202e",
        tests=(msgspec.structs.replace(test, id="test\nit\x9b2J"),),
        findings=(Finding(code="hook", path="a\u200b.py", detail="\x08\x08"),),
    )
    attempt = msgspec.structs.replace(attempt, detail="the end\x00")
    store.write_result(msgspec.structs.replace(result, verdict=verdict, attempts=(attempt,)))
    assert dispatch(["bench", "show", "run-001", "task-0"]) == 0
    shown = capsys.readouterr().out
    assert not set(shown) & set("\x00\x07\x08\x1b\x9b\u200b\u202e")
    for text in ("fine⟦7⟧⟦202E⟧", "test it⟦9B⟧2J", "a⟦200B⟧.py: ⟦8⟧⟦8⟧", "the end⟦0⟧"):
        assert text in shown


def test_a_renamed_run_is_listed_by_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PROCTOR_RESULTS", str(tmp_path))
    store_run(tmp_path, "run-001", tasks=12, seed=1)
    store_run(tmp_path, "run-002", tasks=12, seed=2).folder.rename(tmp_path / "core" / "sonnet")
    (tmp_path / "core" / "run-001").rename(tmp_path / "core" / os.fsdecode(b"caf\xe9"))
    names = {"sonnet", "caf⟦DCE9⟧"}
    assert dispatch(["bench", "report", "core", "--json"]) == 0
    assert {row["run_id"] for row in json.loads(capsys.readouterr().out)["runs"]} == names
    assert dispatch(["bench", "pareto", "core", "--json"]) == 0
    results = json.loads(capsys.readouterr().out)["runs"]
    assert {one["point"]["run"] for one in results} == names
    assert None not in {one["bootstrap_frequency"] for one in results}
    page = tmp_path / "page.html"
    assert dispatch(["bench", "compare", os.fsdecode(b"core/caf\xe9"), "sonnet", "--html", str(page)]) == 0
    assert "sonnet against caf⟦DCE9⟧" in page.read_text()


def test_a_name_that_no_file_can_have_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["bench", "show", "x" * 5000]) == 2
    assert "File name too long" in capsys.readouterr().err


def test_runs_of_different_conditions_have_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    warning = "not the same in all of these runs: concurrency; `proctor bench compare` shows the values\n"
    for form in ([], ["--json"], ["--csv"]):
        assert dispatch(["bench", "pareto", "core", *form]) == 0
        assert capsys.readouterr().err == warning
    assert dispatch(["bench", "pareto", "core", "--markdown"]) == 0
    assert "> not the same in all of these runs: concurrency" in capsys.readouterr().out


def test_runs_without_common_tasks_have_no_empty_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PROCTOR_RESULTS", str(tmp_path))
    store_run(tmp_path, "run-001", tasks=4)
    nothing = store_run(tmp_path, "run-002", tasks=4)
    for file in (nothing.folder / "trials").iterdir():
        file.unlink()
    assert dispatch(["bench", "compare", "run-001", "run-002"]) == 0
    printed = capsys.readouterr().out
    assert printed.endswith("\nrun-001 and run-002 have no graded task in common.\n")
    assert "Change per task" not in printed
    assert dispatch(["bench", "breakdown", "run-001", "run-002"]) == 0
    assert capsys.readouterr().out == "run-001 and run-002 have no graded task in common.\n"
