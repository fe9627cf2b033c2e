"""`bench run`: what cannot be meant is refused in one sentence, before anything is written."""

from pathlib import Path

import pytest

from proctor.cli.dispatch import dispatch

DOCKER = "; give --runner docker too, or leave it out"
SLIM = "one task may cost $2 and the whole run $1, so that no task could begin"
UNPRICED = "no price is known for the model my-model, so no budget can be kept; give a table with its price"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROCTOR_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-dummy-for-tests")
    monkeypatch.delenv("PROCTOR_PRICES", raising=False)
    (tmp_path / "images.json").write_text('{"a": "b"}')
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9\n")
    return tmp_path


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--docker-image x", f"--docker-image is for environments in containers{DOCKER}"),
        ("--image-map images.json", f"--image-map is for environments in containers{DOCKER}"),
        ("--image-disk 1GB", f"--image-disk is for environments in containers{DOCKER}"),
        (
            "--runner docker --isolation off",
            "--isolation off is for environments on this machine, not for --runner docker; leave one of them out",
        ),
        ("--exact", "--exact is for --filter; give --filter too, or name the task with --task"),
        ("--h2-bin h2", "--h2-bin is for pods; give --mode h2 too, or leave it out"),
        ("--max-cost nan", "--max-cost must be a number above 0, not 'nan'"),
        ("--max-cost inf", "--max-cost must be a number above 0, not 'inf'"),
        ("--timeout nan", "--timeout must be a number above 0, not 'nan'"),
        ("--attempts 100000000000000000000", f"--trials must be a whole number from 1 to 1,000,000, not '{10**20}'"),
        ("--exclude none.txt", "none.txt: cannot read the exclusion list: No such file or directory"),
        ("--exclude latin.txt", "latin.txt: cannot read the exclusion list: it is not UTF-8 text"),
        (
            "--max-cost 1 --max-cost-per-task 2",
            f"{SLIM}; give a --max-cost-per-task that fits into --max-cost",
        ),
        (
            "--model my-model --agent claude_code --max-cost 1",
            f"{UNPRICED} as --prices FILE, or leave --max-cost and --max-cost-per-task out",
        ),
        ("--agent-command=", "--agent-command must not be empty"),
        ("--limit 0", "no task is chosen; `proctor bench list` names the tasks"),
    ],
)
def test_invalid_options_are_refused_in_one_sentence(
    place: Path, capsys: pytest.CaptureFixture[str], options: str, sentence: str | None
) -> None:
    assert dispatch(["bench", "run", "core-mini", "--agent", "nop", *options.split()]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert sentence is None or shown.err == f"proctor: {sentence}\n"
    assert not (place / "results").exists()


def test_pods_have_no_turns_to_limit(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["bench", "run", "core-mini", "--mode", "h2", "--model", "opus", "--max-turns", "9"]) == 2
    assert "--max-turns does not bind pods" in capsys.readouterr().err
    assert not (place / "results").exists()


def test_a_list_of_tasks_to_leave_out_may_come_from_another_system(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "out.txt").write_bytes(
        b"\xef\xbb\xbfpy_cache_0001\r\n# a remark\r\n\r\npy_duration_0002\t# slow\r\n  sh_rotate_0024 # odd\r\n"
    )
    arguments = ["bench", "run", "core-mini", "--agent", "nop", "--exclude", "out.txt", "--dry-run"]
    assert dispatch(arguments) == 0
    assert "order          py_ratelimit_0007\n" in capsys.readouterr().out


@pytest.mark.parametrize("command", [("eval", "--oracle"), ("validate",)])
@pytest.mark.parametrize("option", ["--docker-image x", "--image-map images.json", "--image-disk 1GB"])
def test_containers_are_not_asked_for_in_vain(
    place: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...], option: str
) -> None:
    assert dispatch(["bench", *command, "core-mini", *option.split()]) == 2
    said = capsys.readouterr().err
    assert said == f"proctor: {option.split(maxsplit=1)[0]} is for environments in containers{DOCKER}\n"
    assert not (place / "target").exists()
