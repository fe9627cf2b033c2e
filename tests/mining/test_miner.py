"""Mining a repository that the test makes: what becomes a task, and why the rest does not."""

import json
import os
import shutil
import signal
import subprocess
from datetime import UTC, datetime
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path
from threading import Thread
from typing import NoReturn

import pytest

from cli_jobs import PATIENCE, commands
from mining_world import BUGGY, FIXED, SETTINGS, SUMS, ZERO, Repository, calculator, files_of, mine, module_of_tests
from proctor.core.environment import EnvironmentSpec
from proctor.core.errors import InfrastructureError, UsageError
from proctor.environments.local import LocalProvider
from proctor.mining.candidates import Candidate
from proctor.mining.history import open_history
from proctor.mining.journal import MiningJournal
from proctor.mining.miner import MineSession
from proctor.mining.miner import mine as mine_suite
from proctor.mining.settings import MineOptions, parse_settings
from suite_world import proctor
from waiting import until


@pytest.fixture(scope="module")
def mined(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the calculator's repository and its suite."""
    folder = tmp_path_factory.mktemp("mined")
    calculator(folder / "calc")
    done = mine(folder, folder / "calc")
    assert done.code == 0, done.stderr
    return folder


def report(folder: Path) -> dict[str, str]:
    """What became of each commit, by its subject."""
    document = json.loads((folder / "suite" / "mining.json").read_text())
    return {one["subject"]: one.get("code") or one["stage"] for one in document["commits"]}


def test_every_commit_has_an_outcome(mined: Path) -> None:
    assert report(mined) == {
        "Start": "root",
        "Describe it": "no-source",
        "Fix sums (#7)": "task",
        "Test more": "no-source",
        "Bump": "author",
        "Add doubling": "task",
        "Rename": "no-fail-to-pass",
    }


def instances(folder: Path) -> dict[str, dict[str, object]]:
    files = (folder / "suite" / "instances").glob("*/instance.json")
    documents = [json.loads(file.read_text()) for file in files]
    return {one["provenance"]["subject"]: one for one in documents}


def test_a_task_has_labels_by_what_happened_and_says_where_it_comes_from(mined: Path) -> None:
    task = instances(mined)["Fix sums (#7)"]
    evaluation, provenance = task["eval"], task["provenance"]
    assert evaluation["fail_to_pass"] == ["tests.test_calc.CalcTest.test_sums"]  # type: ignore[index]
    assert evaluation["pass_to_pass"] == ["tests.test_calc.CalcTest.test_zero"]  # type: ignore[index]
    assert task["created"] == "2026-03-03"
    assert provenance["licence"] == "MIT"  # type: ignore[index]
    folder = mined / "suite" / "instances" / str(task["instance_id"])
    assert (folder / "issue.md").read_text() == (
        "Fix sums\n\nAdding two numbers gives their difference, so that every sum of positive numbers is too small.\n"
    )
    assert (folder / "repo" / "calc.py").read_text() != FIXED
    assert "test_sums" not in (folder / "repo/tests/test_calc.py").read_text()
    assert "test_sums" in (folder / "hidden/tests/test_calc.py").read_text()
    assert "tests/" not in (folder / "oracle.diff").read_text()


def test_tests_that_fail_because_their_file_cannot_be_loaded_are_told_from_those_that_fail(mined: Path) -> None:
    task = instances(mined)["Add doubling"]
    names = {f"tests.test_calc.CalcTest.{name}" for name in ("test_doubles", "test_sums", "test_zero")}
    assert set(task["eval"]["fail_to_pass"]) == names  # type: ignore[index]
    assert set(task["provenance"]["loaded_only_after"]) == names - {"tests.test_calc.CalcTest.test_doubles"}  # type: ignore[index]


def test_tests_that_fail_because_another_one_ends_the_program_are_told_from_those_that_fail(tmp_path: Path) -> None:
    runner = """import sys
from pathlib import Path
from calc import add
cases = []
for line in Path("tests/cases.txt").read_text().splitlines():
    name, *numbers = line.split()
    a, b, total = map(int, numbers)
    cases.append(f"<testcase classname='sums' name='{name}'>{'' if add(a, b) == total else '<failure/>'}</testcase>")
    if add(a, b) != total:
        break
Path(sys.argv[1]).write_text(f"<testsuite>{''.join(cases)}</testsuite>")
sys.exit(add(a, b) != total)
"""
    command = (
        'language = "other"\n[test]\ncommand = ["/deps/venv/bin/python", "runner.py", "{report}"]\nformat = "junit"\n'
    )
    repository = Repository(tmp_path / "calc")
    files = {"calc.py": BUGGY, "runner.py": runner, "tests/cases.txt": "zero 0 0 0\n"}
    repository.commit("Start", {**files, "proctor-mine.toml": SETTINGS.partition("[test]")[0] + command})
    message = "Fix sums\n\nAdding two numbers gives their difference, so that every sum of two numbers is too small."
    repository.commit(message, {"calc.py": FIXED, "tests/cases.txt": "sums 2 3 5\nzero 0 0 0\n"})
    done = mine(tmp_path, repository.folder)
    assert done.code == 0, done.stderr
    (task,) = instances(tmp_path).values()
    assert task["eval"]["fail_to_pass"] == ["sums::sums", "sums::zero"]  # type: ignore[index]
    assert task["provenance"]["loaded_only_after"] == ["sums::zero"]  # type: ignore[index]


def test_the_same_command_gives_the_same_bytes_also_with_several_jobs(mined: Path, tmp_path: Path) -> None:
    again = mine(tmp_path, mined / "calc", "--jobs", "3")
    assert again.code == 0, again.stderr
    assert files_of(tmp_path / "suite") == files_of(mined / "suite")


def test_every_task_is_healthy_in_an_environment_made_anew(mined: Path, tmp_path: Path) -> None:
    done = proctor(tmp_path, "bench", "validate", "--suite", mined / "suite", "--json", "--quiet")
    tasks = json.loads(done.stdout)["tasks"]
    assert done.code == 0, done.stdout
    assert len(tasks) == 2
    assert all(task["healthy"] and task["controls"]["controlled"] for task in tasks)


def test_the_oracle_is_resolved_and_no_answer_is_not(mined: Path, tmp_path: Path) -> None:
    for agent, wanted in (("oracle", 2), ("nop", 0)):
        done = proctor(tmp_path, "bench", "run", "--suite", mined / "suite", "--agent", agent, "--json")
        assert done.code == 0, done.stderr
        assert json.loads(done.stdout)["resolved"] == wanted


def test_a_scripted_agent_that_sees_only_the_workspace_solves_a_task(mined: Path, tmp_path: Path) -> None:
    fix = "sed -i 's/a - b/a + b/' calc.py && /deps/venv/bin/python -m unittest -q tests.test_calc && git log --oneline"
    done = proctor(
        tmp_path,
        *(
            "bench",
            "run",
            "--suite",
            mined / "suite",
            "--agent",
            "command",
            "--agent-command",
            f"sh -c '{fix.replace(chr(39), chr(34))}'",
        ),
        *("--after", "2026-03-02", "--filter", "20260303", "--json"),
    )
    assert done.code == 0, done.stderr
    assert json.loads(done.stdout)["resolved"] == 1


def test_tasks_can_be_limited_to_what_came_after_a_day(mined: Path, tmp_path: Path) -> None:
    listed = proctor(tmp_path, "bench", "list", "--suite", mined / "suite", "--after", "2026-03-03", "--json")
    assert [task["id"] for task in json.loads(listed.stdout)["tasks"]] == [
        instances(mined)["Add doubling"]["instance_id"]
    ]
    wrong = proctor(tmp_path, "bench", "list", "--suite", mined / "suite", "--after", "soon")
    assert wrong.code == 2
    undated = proctor(tmp_path, "bench", "list", "--suite", "core-mini", "--after", "2026-01-01")
    assert undated.code == 2
    assert "is not known; leave --after out" in undated.stderr


def test_a_killed_mining_is_resumed_and_ends_as_if_it_had_not_been(mined: Path, tmp_path: Path) -> None:
    environment = {"PROCTOR_CACHE": str(tmp_path / "cache")}
    arguments = ("suite", "mine", mined / "calc", "--out", tmp_path / "suite")
    clean = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    job = commands().start(*arguments, cwd=tmp_path, env={**clean, **environment})
    journal = tmp_path / "suite/.mining/journal.jsonl"
    until(lambda: journal.is_file() and journal.stat().st_size > 0, "the first candidate", seconds=PATIENCE)
    job.signal(signal.SIGKILL)
    job.wait_here()
    first = journal.read_text().splitlines()
    assert len(first) < 3
    done = mine(tmp_path, mined / "calc")
    assert done.code == 0, done.stderr
    assert journal.read_text().splitlines()[: len(first)] == first
    assert files_of(tmp_path / "suite") == files_of(mined / "suite")


def test_an_interrupted_session_ends_with_the_newest_tasks_also_with_a_lower_limit(mined: Path, tmp_path: Path) -> None:
    """Of several candidates at once, a later one may be done when the session is killed, and an earlier one not."""
    shutil.copytree(mined / "suite", tmp_path / "suite")
    newest = instances(mined)["Add doubling"]["instance_id"]
    shutil.rmtree(tmp_path / f"suite/instances/{newest}")
    journal, request = tmp_path / "suite/.mining/journal.jsonl", tmp_path / "suite/.mining/request.json"
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(line for line in lines if str(newest) not in line))
    request.write_text(
        request.read_text().replace('"done":true', '"done":false').replace('"done": true', '"done": false')
    )
    done = mine(tmp_path, mined / "calc", "--limit", "1")
    assert done.code == 0, done.stderr
    assert list(instances(tmp_path)) == ["Add doubling"]


def test_an_update_adds_what_is_new_and_keeps_the_rest(tmp_path: Path) -> None:
    repository = calculator(tmp_path / "calc")
    assert mine(tmp_path, tmp_path / "calc", "--limit", "1").code == 0
    before = set(files_of(tmp_path / "suite"))
    assert mine(tmp_path, tmp_path / "calc", "--limit", "1").code == 2
    repository.commit(
        "Subtract\n\nThe calculator can subtract numbers now with a function that is called minus, as users asked for.",
        {
            "calc.py": FIXED + "\n\ndef minus(a, b):\n    return a - b\n",
            "tests/test_calc.py": module_of_tests(
                ZERO, "test_minus(self):\n        self.assertEqual(minus(3, 1), 2)", imports="add, minus"
            ),
        },
    )
    done = mine(tmp_path, tmp_path / "calc", "--limit", "1", "--update")
    assert done.code == 0, done.stderr
    after = set(files_of(tmp_path / "suite"))
    assert before < after
    assert len(instances(tmp_path)) == 2


def test_explain_lists_every_commit_and_runs_nothing(mined: Path, tmp_path: Path) -> None:
    done = proctor(tmp_path, "suite", "mine", mined / "calc", "--explain")
    assert done.code == 0
    assert "a bot made it" in done.stdout
    assert "1 author" in done.stdout
    assert not (tmp_path / "suites").exists()


@pytest.mark.parametrize(
    ("option", "value", "left"),
    [
        ("--only", "CHANGELOG.md", ["Fix sums (#7)"]),
        ("--exclude", "CHANGELOG.md", ["Add doubling", "Rename"]),
        ("--exclude-author", "ada@", []),
        ("--max-lines", "3", ["Fix sums (#7)", "Rename"]),
        ("--min-lines", "4", ["Add doubling"]),
        ("--until", "2026-03-03", ["Fix sums (#7)"]),
    ],
)
def test_options_choose_among_the_changes(
    mined: Path, tmp_path: Path, option: str, value: str, left: list[str]
) -> None:
    done = proctor(tmp_path, "suite", "mine", mined / "calc", "--explain", "--json", option, value)
    commits = json.loads(done.stdout)["commits"]
    assert sorted(one["subject"] for one in commits if one.get("code") == "untried") == sorted(left)


def test_an_issue_is_the_instruction_and_what_has_a_flag_is_not_fair(mined: Path, tmp_path: Path) -> None:
    issue = {"number": 3, "title": "Sums are wrong", "body": "Adding 2 and 3 gives -1."}
    (tmp_path / "issues.jsonl").write_text(json.dumps(issue))
    options = ("--issues", tmp_path / "issues.jsonl", "--until", "2026-03-03")
    assert mine(tmp_path, mined / "calc", *options).code == 0
    (task,) = instances(tmp_path).values()
    statement = tmp_path / "suite/instances" / str(task["instance_id"]) / "issue.md"
    assert statement.read_text() == "Sums are wrong\n\nAdding 2 and 3 gives -1.\n"
    assert task["provenance"]["flags"] == ["short-instruction"]  # type: ignore[index]
    fair = mine(tmp_path, mined / "calc", *options, "--fair", "--out", tmp_path / "fair")
    assert "1 unfair" in fair.stdout


def test_a_suite_that_exceeds_its_disk_limit_ends_the_session(mined: Path, tmp_path: Path) -> None:
    done = mine(tmp_path, mined / "calc", "--disk", "1kB")
    assert done.code == 12
    assert "disk limit reached" in done.stderr


def test_show_has_the_funnel_the_flags_and_the_time(mined: Path, tmp_path: Path) -> None:
    summary = proctor(tmp_path, "suite", "show", mined / "suite", "--json").json
    assert [step["left"] for step in summary["funnel"]] == [7, 3, 3, 2, 2]
    assert summary["languages"] == {"python": 2}
    assert summary["months"] == {"2026-03": 2}
    assert summary["environments"] == 1
    assert summary["seconds_per_task"] > 0
    shown = proctor(tmp_path, "suite", "show", mined / "suite", "--tasks").stdout
    assert "no-fail-to-pass" in shown


def test_rows_of_swe_bench_hold_both_sides_of_the_change(mined: Path, tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    assert proctor(tmp_path, "suite", "export", mined / "suite", "--out", out).code == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    (row,) = [row for row in rows if json.loads(row["FAIL_TO_PASS"]) == ["tests.test_calc.CalcTest.test_sums"]]
    assert "+    return a + b" in row["patch"]
    assert "test_sums" in row["test_patch"]
    assert len(row["base_commit"]) == 40


def test_a_higher_limit_adds_what_is_older(mined: Path, tmp_path: Path) -> None:
    assert mine(tmp_path, mined / "calc", "--limit", "1").code == 0
    assert len(instances(tmp_path)) == 1
    done = mine(tmp_path, mined / "calc", "--limit", "5")
    assert done.code == 0, done.stderr
    assert files_of(tmp_path / "suite") == files_of(mined / "suite")
    refused = mine(tmp_path, mined / "calc", "--limit", "5", "--min-lines", "3")
    assert refused.code == 2
    assert "with other options" in refused.stderr


def test_tests_that_need_the_network_the_clock_or_a_service_are_found(tmp_path: Path) -> None:
    with HTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        connect = "__import__('socket').create_connection(('127.0.0.1', {}), 9).close()"
        cases = {
            "test_network": connect.format(server.server_port),
            "test_date": f"self.assertEqual(__import__('datetime').date.today().year, {datetime.now(UTC).year})",
            "test_service": connect.format(47123),
        }
        bodies = [
            f"{name}(self):\n        {line}\n        self.assertEqual(add(2, 3), 5)" for name, line in cases.items()
        ]
        wait = f'until "$PYTHON" -c "{connect.format(47123)}"; do sleep 0.1; done'
        service = f'"$PYTHON" -m http.server 47123 --bind 127.0.0.1 & {wait}'
        repository = Repository(tmp_path / "calc")
        settings = f"{SETTINGS}services = [{json.dumps(service)}]\n"
        repository.commit("Start", {"calc.py": BUGGY, "tests/__init__.py": "", "proctor-mine.toml": settings})
        repository.commit(
            "Fix sums\n\nAdding two numbers gives their difference, so that every sum of two numbers is too small.",
            {"calc.py": FIXED, "tests/test_calc.py": module_of_tests(ZERO, SUMS, *bodies)},
        )
        done = mine(tmp_path, repository.folder)
        server.shutdown()
    assert done.code == 0, done.stderr
    (task,) = instances(tmp_path).values()
    prefix = "tests.test_calc.CalcTest."
    assert {test["id"]: test["reason"] for test in task["provenance"]["excluded"]} == {  # type: ignore[index]
        f"{prefix}test_network": "needs the network",
        f"{prefix}test_date": "depends on the date",
    }
    assert task["eval"]["fail_to_pass"] == [f"{prefix}test_service", f"{prefix}test_sums"]  # type: ignore[index]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nowhere",), "no repository there"),
        (("empty",), "no commit yet"),
        (("calc", "--commit", "abcdef0"), "there is no commit abcdef0"),
        (("calc", "--commit", ""), "the ids of 7 commits begin with ''"),
        (("calc", "--update"), "no suite to update is there"),
        (("calc", "--since", "2026-03-02", "--until", "2026-03-01"), "--since is after --until"),
        (("calc", "--since", "2030-01-01"), "no commit of the main line is in this range"),
        (("calc", "--name", "a suite"), "a suite's name has letters"),
        (("calc", "--setup-agent", "nobody"), "there is no agent 'nobody'"),
        (("calc", "--model", "sonnet"), "--model is for --setup-agent"),
        (("calc", "--max-cost", "1"), "--max-cost is for --setup-agent or --write-issues"),
        (("calc", "--issues-api", "example.com"), "begins with https://"),
        (("calc", "--out", "file/suite"), "no suite can be made there"),
        (("calc", "--out", "file"), "something else is there already"),
        (("calc", "--out", "full"), "something else is there already"),
    ],
    ids=" ".join,
)
def test_wrong_input_is_refused_with_a_sentence_and_nothing_is_written(
    mined: Path, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    (tmp_path / "calc").symlink_to(mined / "calc")
    Repository(tmp_path / "empty")
    (tmp_path / "file").touch()
    (tmp_path / "full").mkdir()
    (tmp_path / "full/other").touch()
    done = proctor(tmp_path, "suite", "mine", *arguments)
    assert done.code == 2
    assert said in done.stderr
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["other"]
    assert not list(tmp_path.glob("suites/*/suite.json"))


def test_a_commit_that_git_cannot_read_is_passed_over(mined: Path, tmp_path: Path) -> None:
    shutil.copytree(mined / "calc", tmp_path / "calc")
    repository = tmp_path / "calc"
    names = subprocess.run(
        ["git", "rev-parse", "HEAD:calc.py"], cwd=repository, capture_output=True, text=True, check=True
    ).stdout.strip()
    (repository / ".git/objects" / names[:2] / names[2:]).unlink()
    done = proctor(tmp_path, "suite", "mine", repository, "--explain")
    assert done.code == 0, done.stderr
    assert "1 unreadable" in done.stdout
    assert "2 untried" in done.stdout


def test_settings_that_are_wrong_are_refused_with_the_place(mined: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[setup]\npyton = '3.11'\n")
    done = mine(tmp_path, mined / "calc", "--settings", file)
    assert done.code == 2
    assert "pyton" in done.stderr


@pytest.mark.parametrize("wrong", ["language = 'cobol'", "python = 'three'", "runtimes = {cobol = '1'}"])
def test_settings_with_a_value_that_nothing_knows_are_refused(wrong: str) -> None:
    with pytest.raises(UsageError, match=rf"proctor-mine.toml.*\$\.setup\.{wrong.split(maxsplit=1)[0]}|runtimes"):
        parse_settings(f"[setup]\n{wrong}\n", where="proctor-mine.toml")


def test_other_settings_begin_anew_where_nothing_became_a_task(mined: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(SETTINGS.replace("commands = [", "commands = ['exit 3', "))
    assert "0 tasks" in mine(tmp_path, mined / "calc", "--settings", file).stdout
    shown = proctor(tmp_path, "suite", "show", "suite", "--tasks")
    assert shown.code == 0, shown.stderr
    assert "3 install" in shown.stdout
    done = mine(tmp_path, mined / "calc")
    assert done.code == 0, done.stderr
    assert files_of(tmp_path / "suite") == files_of(mined / "suite")
    assert mine(tmp_path, mined / "calc", "--settings", file).code == 2


async def test_a_candidate_that_fails_for_want_of_space_is_not_dropped(
    mined: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: whole._replace(free=1000 if started else whole.free))
    started: list[Candidate] = []
    settings = parse_settings(SETTINGS.replace("commands = [", "commands = ['exit 3', "), where="test")
    with open_history(str(mined / "calc")) as history:
        session = MineSession(
            history=history,
            provider=LocalProvider(),
            out=tmp_path / "suite",
            options=MineOptions(),
            settings=settings,
            repository="calc",
            on_start=started.append,
        )
        with pytest.raises(InfrastructureError, match="the disk is full"):
            await mine_suite(session)
    assert len(started) == 1
    assert MiningJournal(tmp_path / "suite").results() == {}


def test_a_set_up_that_fails_says_why_and_where_the_log_is(mined: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(SETTINGS.replace("commands = [", "commands = ['echo no such compiler >&2; exit 3', "))
    done = mine(tmp_path, mined / "calc", "--settings", file)
    assert done.code == 0
    assert "no such compiler" in done.stderr
    assert "log.txt" in done.stderr


class Imageless(LocalProvider):
    """Its environments' image cannot be built."""

    async def start(self, spec: EnvironmentSpec) -> NoReturn:
        raise InfrastructureError(
            "the image cannot be built: code 100", details=["E: Unable to locate package nothing"]
        )


async def test_an_image_that_cannot_be_built_has_what_its_steps_printed_in_the_log(
    mined: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROCTOR_CACHE", str(tmp_path / "cache"))
    with open_history(str(mined / "calc")) as history:
        session = MineSession(
            history=history,
            provider=Imageless(),
            out=tmp_path / "suite",
            options=MineOptions(min_lines=4),
            settings=parse_settings(SETTINGS.replace("/deps/venv", "/deps/other"), where="test"),
            repository="calc",
        )
        await mine_suite(session)
    (result,) = session.results.values()
    assert result.reason.startswith("the image cannot be built")
    assert "Unable to locate package nothing" in Path(result.log).read_text()


def test_a_solution_in_the_documents_is_a_leak(tmp_path: Path) -> None:
    lines = [f"    total_{number} = compute_exactly(a, {number})\n" for number in range(4)]
    fix = f"def add(a, b):\n{''.join(lines)}    return a + b\n"
    made = Repository(tmp_path / "calc")
    start = {"calc.py": "def add(a, b):\n    return a - b\n", "tests/__init__.py": "", "proctor-mine.toml": SETTINGS}
    helper = "def compute_exactly(a, b):\n    return a + b\n\n\n"
    made.commit("Start", {**start, "calc.py": helper + start["calc.py"], "docs/plan.md": fix})
    made.commit(
        "Fix sums\n\nAdding two numbers gives their difference, so that every sum of two numbers is too small.",
        {"calc.py": helper + fix, "tests/test_calc.py": module_of_tests(ZERO, SUMS)},
    )
    done = mine(tmp_path, tmp_path / "calc")
    assert done.code == 0, done.stderr
    assert report(tmp_path)["Fix sums"] == "leak"


def test_a_change_that_fixes_no_test_says_how_many_fail_after_it(tmp_path: Path) -> None:
    made = Repository(tmp_path / "calc")
    made.commit("Start", {"calc.py": BUGGY, "tests/__init__.py": "", "proctor-mine.toml": SETTINGS})
    wrong = "test_more(self):\n        self.assertEqual(add(2, 3), 6)"
    made.commit(
        "Fix sums\n\nAdding two numbers gives their difference, so that every sum of two numbers is too small.",
        {"calc.py": FIXED, "tests/test_calc.py": module_of_tests(ZERO, wrong)},
    )
    done = mine(tmp_path, tmp_path / "calc")
    assert done.code == 0, done.stderr
    assert "no test fails before it and passes after it; of 2 tests 1 fail after it" in done.stderr
