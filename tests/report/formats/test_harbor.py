import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from paths import sample_data, shared_data
from proctor.core.causes import Cause, Status
from proctor.core.errors import InvalidData, UsageError
from proctor.core.result import TaskResult
from proctor.core.verdict import TestStatus
from proctor.report.formats.harbor import HarborFormat
from proctor.results import RunStore
from proctor.results.formats import ExportOptions, ImportOptions, export_run, import_run
from recorded import record_pod, record_single
from stored_runs import finish, small_run, store_trial


@pytest.fixture
async def stored(tmp_path: Path) -> RunStore:
    store = small_run(tmp_path / "results")
    await record_single(store.logs("org/one", 1, 1) / "cassette.jsonl", "org/one", ask="Fix it.")
    await record_pod(store.logs("two", 1, 1) / "cassette.jsonl", "two")
    return store


def imported(job: Path, root: Path, **options: str) -> RunStore:
    return import_run(HarborFormat().read(job, ImportOptions(**options)), root=root)


def without_run_id(results: list[TaskResult]) -> list[TaskResult]:
    return [msgspec.structs.replace(result, run_id="") for result in results]


async def test_an_exported_job_reads_back_equal(stored: RunStore, tmp_path: Path) -> None:
    job = tmp_path / "job"
    exported = export_run(stored, HarborFormat(), job, ExportOptions())
    assert exported.left_out == ("2 trials that the run has not recorded",)
    again = imported(job, tmp_path / "again")
    assert without_run_id(list(again.results())) == without_run_id(list(stored.results()))
    before, after = stored.config(), again.config()
    assert msgspec.structs.replace(after, origin=None, tasks=before.tasks) == before
    first, second = (store.logs("org/one", 1, 1) / "submission.diff" for store in (stored, again))
    assert first.read_bytes() == second.read_bytes()
    second_job = tmp_path / "second"
    export_run(again, HarborFormat(), second_job, ExportOptions())
    for file in job.rglob("*.json"):
        name = file.relative_to(job)
        if name.name != "proctor.json":
            assert json.loads(file.read_text()) == json.loads((second_job / name).read_text()), name


async def test_a_job_has_what_harbor_reads(stored: RunStore, tmp_path: Path) -> None:
    job = tmp_path / "job"
    export_run(stored, HarborFormat(), job, ExportOptions(name="mine"))
    result = json.loads((job / "result.json").read_text())
    (key,) = result["stats"]["evals"]
    assert key == "mine__claude-sonnet-4-5__toy"
    numbers = result["stats"]["evals"][key]
    assert (numbers["n_trials"], numbers["n_errors"], numbers["metrics"]) == (3, 1, [{"mean": 0.25}])
    assert {reward: len(trials) for reward, trials in numbers["reward_stats"]["reward"].items()} == {"1.0": 1, "0.0": 2}
    assert list(numbers["exception_stats"]) == ["ApiError"]
    assert (result["stats"]["cost_usd"], result["stats"]["n_output_tokens"]) == (1.0, 52)
    trials = {json.loads(file.read_text())["task_name"]: file.parent for file in job.glob("*/result.json")}
    assert set(trials) == {"org/one", "two", "three"}
    solved = next(file.parent.parent for file in job.glob("*/verifier/reward.txt") if file.read_text() == "1\n")
    assert solved.name.startswith("org_2fone__")
    assert len(solved.name.rpartition("__")[2]) == 7
    assert (solved / "agent/trajectory.json").is_file()
    tests = json.loads((solved / "verifier/ctrf.json").read_text())["results"]["tests"]
    assert [(test["name"], test["status"]) for test in tests] == [("t::a", "passed"), ("t::b", "passed")]


async def test_a_result_that_was_changed_later_is_used_instead_of_ours(stored: RunStore, tmp_path: Path) -> None:
    job = tmp_path / "job"
    export_run(stored, HarborFormat(), job, ExportOptions())
    (file,) = (file for file in job.glob("two__*/result.json"))
    file.write_text(file.read_text().replace('"reward": 0.0', '"reward": 1.0'))
    result = imported(job, tmp_path / "again").result("two")
    assert (result.status, result.cause) == (Status.RESOLVED, Cause.SOLVED)
    assert result.verdict is not None
    assert [test.after for test in result.verdict.tests] == [TestStatus.FAILED, TestStatus.PASSED]


@pytest.mark.parametrize(
    ("data", "agent_seconds", "grade_seconds"),
    [
        pytest.param(sample_data, 1.25, 12.5, id="our-sample"),
        pytest.param(shared_data, 0.535988, 29.0005, id="real-sample"),
    ],
)
def test_a_job_of_harbors_own_is_stored_as_a_run(
    data: Callable[..., Path], agent_seconds: float, grade_seconds: float, tmp_path: Path
) -> None:
    run = imported(data("harbor_job"), tmp_path)
    config = run.config()
    assert (config.benchmark, config.agent, config.model, config.runner) == ("tasks", "oracle", None, "docker")
    assert config.versions == {"oracle": "1.0.0", "harbor": "0.24.0"}
    results = list(run.results())
    assert [(result.status, result.usage) for result in results] == [(Status.RESOLVED, ())] * 2
    assert results[0].agent_seconds == pytest.approx(agent_seconds)
    assert results[0].grade_seconds == pytest.approx(grade_seconds)
    logs = run.folder / results[0].attempts[0].logs
    assert (logs / "harbor/verifier/reward.txt").read_text() == "1\n"


def trial(job: Path, name: str, **changes: object) -> None:
    document = {
        "task_name": name,
        "trial_name": f"{name}__0000000",
        "source": "set",
        "task_checksum": "",
        "agent_info": {"name": "a", "version": "1", "model_info": {"name": "m", "provider": "p"}},
        "verifier_result": {"rewards": {"reward": 0.0}},
        **changes,
    }
    (job / f"{name}__0000000").mkdir(parents=True)
    (job / f"{name}__0000000/result.json").write_text(json.dumps(document))
    (job / "result.json").write_text("{}")


def raised(kind: str) -> dict[str, str]:
    return {"exception_type": kind, "exception_message": "so it was"}


def test_an_exception_says_whether_the_reward_counts(tmp_path: Path) -> None:
    job = tmp_path / "job"
    trial(job, "late", exception_info=raised("AgentTimeoutError"))
    trial(job, "late-but-right", exception_info=raised("AgentTimeoutError"), verifier_result={"rewards": {"reward": 1}})
    trial(job, "limited", exception_info=raised("ApiRateLimitError"))
    trial(job, "strange", exception_info=raised("SomethingNewError"))
    trial(job, "ungraded", verifier_result=None)
    trial(job, "partly", verifier_result={"rewards": {"reward": 0.5, "speed": 3}})
    found = {result.task_id: result for result in imported(job, tmp_path / "results").results()}
    assert {name: (str(result.status), str(result.cause)) for name, result in found.items()} == {
        "late": ("unresolved", "agent_timeout"),
        "late-but-right": ("resolved", "solved"),
        "limited": ("error", "rate_limited"),
        "strange": ("error", "environment_failed"),
        "ungraded": ("error", "grader_failed"),
        "partly": ("unresolved", "tests_failed"),
    }
    assert [usage.cost_usd for usage in found["late"].usage] == [None]  # unknown, since a model was called
    partly = found["partly"].verdict
    assert partly is not None
    assert (partly.score, partly.scores) == (0.5, {"speed": 3.0})


def test_one_agent_of_a_job_with_several_must_be_chosen(tmp_path: Path) -> None:
    job = tmp_path / "job"
    trial(job, "one")
    trial(job, "two", agent_info={"name": "b", "version": "1"})
    with pytest.raises(UsageError, match="several agents: a p/m, b"):
        HarborFormat().read(job, ImportOptions())
    assert imported(job, tmp_path / "results", agent="b").config().tasks == ("two",)
    with pytest.raises(InvalidData, match="no finished trial of this agent"):
        HarborFormat().read(job, ImportOptions(agent="c"))


def test_a_folder_that_is_not_a_job_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match="not a job folder"):
        HarborFormat().read(tmp_path, ImportOptions())
    trial(tmp_path, "one", agent_info=3)
    with pytest.raises(InvalidData, match=r"one__0000000/result.json: not a valid harbor trial"):
        HarborFormat().read(tmp_path, ImportOptions())


def test_several_trials_give_pass_at_k(tmp_path: Path) -> None:
    store = small_run(tmp_path / "results")
    for trial in range(1, 5):
        store_trial(store, "two", Cause.SOLVED if trial < 2 else Cause.TESTS_FAILED, trial=trial)
        store_trial(store, "org/one", Cause.SOLVED, trial=trial)
        store_trial(store, "three", Cause.TESTS_FAILED, trial=trial)
    finish(store)
    export_run(store, HarborFormat(), tmp_path / "job", ExportOptions())
    stats = json.loads((tmp_path / "job/result.json").read_text())["stats"]["evals"]
    (numbers,) = stats.values()
    assert numbers["pass_at_k"] == {"2": pytest.approx((1 + 0.5 + 0) / 3), "4": pytest.approx(2 / 3)}


def test_the_usage_and_the_times_of_steps_are_read_where_harbor_has_them(tmp_path: Path) -> None:
    def step(name: str, reward: float, **changes: object) -> dict[str, object]:
        timing = {"started_at": "2026-01-01T00:00:00Z", "finished_at": "2026-01-01T00:00:02Z"}
        return {
            "step_name": name,
            "agent_result": {"n_input_tokens": 10, "n_cache_tokens": 4, "n_output_tokens": 3, "cost_usd": 0.5},
            "verifier_result": {"rewards": {"reward": reward}},
            "agent_execution": timing,
            "verifier": timing,
            **changes,
        }

    both = {"verifier_result": {"rewards": {"reward": 0.5}}}
    trial(tmp_path / "job", "steps", step_results=[step("one", 1.0), step("two", 0.0)], **both)
    late = step("one", 0.0, exception_info=raised("AgentTimeoutError"))
    trial(tmp_path / "job", "late", step_results=[late])
    run = imported(tmp_path / "job", tmp_path / "results")
    result = run.result("steps")
    assert [(one.name, one.seconds, one.verify_seconds) for one in result.steps] == [("one", 2, 2), ("two", 2, 2)]
    assert (result.agent_seconds, result.grade_seconds) == (4, 4)
    assert [(used.tokens.input, used.tokens.output, used.cost_usd) for used in result.usage] == [(12, 6, 1.0)]
    assert result.verdict is not None
    assert (result.verdict.score, result.verdict.scores) == (0.5, {"one/reward": 1.0, "two/reward": 0.0})
    assert run.result("late").cause is Cause.AGENT_TIMEOUT
    export_run(run, HarborFormat(), tmp_path / "again", ExportOptions())
    (written,) = (tmp_path / "again").glob("steps__*/result.json")
    document = json.loads(written.read_text())
    assert document["verifier_result"] == {"rewards": {"reward": 0.5}}
    steps = document["step_results"]
    assert [one["verifier_result"]["rewards"]["reward"] for one in steps] == [1.0, 0.0]
    assert [one["agent_result"]["cost_usd"] for one in steps] == [0.5, 0.5]
