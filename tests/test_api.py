"""The Python API: what it exports, and that it does on a shipped suite what the command line does."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import toy_benchmark

import proctor
from proctor.core.errors import UsageError

SUITE, TASK, OTHER = "core-mini", "py_cache_0001", "py_duration_0002"

PUBLIC = """
    evaluate evaluate_async load_results resume resume_async resume_sweep resume_sweep_async run run_async sweep
    sweep_async validate validate_async CommonOptions EvaluateOptions ResumeOptions RunOptions SweepOptions
    EvaluationReport Prediction RunConfig RunResults RunSummary SweepResults TaskEvaluation TaskHealth TaskResult
    Trajectory
    Cause Finding Status TestStatus Verdict
    InfrastructureError InvalidData InvalidSubmission LimitReached ProctorError RetryableError UsageError

    Agent AgentMetrics AgentOutcome AgentRequest AgentSetup
    AttemptLogs Benchmark BenchmarkSource DatasetInfo GradeOptions GradingContext InvalidTask LogMeasure Machine
    PatchBenchmark PublishedResult
    DirectorySource ImageSource Oracle PatchKind PrivatePart PublicPart RepositorySource SubmissionKind Task
    DelegatingProvider Environment EnvironmentProvider EnvironmentRequirement EnvironmentSpec ExecResult Limits Mount
    Network provider required_program
    BaseTree Expectation TestFormat TestPlan TestRun
    apply_patch audit_change base_of check_out make_submission resolve run_tests
"""


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "kept"


def test_what_is_exported_is_there_and_is_what_programs_and_plugins_need() -> None:
    for name in proctor.__all__:
        assert getattr(proctor, name).__name__ == name
    assert set(proctor.__all__) <= set(dir(proctor))
    assert sorted(proctor.__all__) == sorted(PUBLIC.split())
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        proctor.nothing  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"max_cots": 5.0}, "there is no option 'max_cots'; did you mean 'max_cost'?"),
        ({"mode": "pod"}, "mode must be one of baseline, h2, not 'pod'"),
        ({"network": "all"}, "network must be one of none, model, open, not 'all'"),
        ({"tasks": TASK}, f"tasks must be a list of texts, not '{TASK}'"),
        ({"limit": -1}, "limit must be a whole number from 0 to 1,000,000, not -1"),
        ({"retries": -1}, "retries must be a whole number from 0 to 1,000,000, not -1"),
        ({"concurrency": 0}, "concurrency must be a whole number from 1 to 1,000,000, not 0"),
        ({"attempts": 10**20}, f"trials must be a whole number from 1 to 1,000,000, not {10**20}"),
        ({"max_cost": float("nan")}, "max_cost must be a number above 0, not nan"),
        ({"max_cost_per_task": float("inf")}, "max_cost_per_task must be a number above 0, not inf"),
        ({"timeout": 0}, "timeout must be a number above 0, not 0"),
    ],
)
def test_invalid_options_are_refused_before_anything_is_written(results: Path, options: Any, sentence: str) -> None:
    with pytest.raises(UsageError) as refused:
        proctor.run(SUITE, agent="nop", results=results, **options)
    assert refused.value.sentence == sentence
    assert not results.exists()


class Unfinished(proctor.Agent):
    """It has neither a name nor a way to solve anything."""


WRONG: dict[str, Callable[[Any], object]] = {
    "file must be a path, not 7": lambda _: proctor.sweep(7),  # type: ignore[arg-type]
    "results must be a path, not 4": lambda _: proctor.run(SUITE, agent="nop", results=4),  # type: ignore[arg-type]
    "results must be a path, not 5": lambda _: proctor.load_results("x", results=5),  # type: ignore[arg-type]
    "predictions must be a Path, objects of the class Prediction, or 'oracle', not 5": (
        lambda _: proctor.evaluate(SUITE, 5, limit=1)  # type: ignore[arg-type]
    ),
    "predictions must be a Path, objects of the class Prediction, or 'oracle', not {'a': 1}": (
        lambda _: proctor.evaluate(SUITE, {"a": 1}, limit=1)  # type: ignore[dict-item]
    ),
    "on_trial_finished must be a function, not 1": (
        lambda results: proctor.run(SUITE, agent="nop", results=results, on_trial_finished=1)  # type: ignore[arg-type]
    ),
    "on_evaluated must be a function, not 2": (
        lambda _: proctor.evaluate(SUITE, "oracle", on_evaluated=2)  # type: ignore[arg-type]
    ),
    "on_validated must be a function, not 3": (
        lambda _: proctor.validate(SUITE, on_validated=3)  # type: ignore[arg-type]
    ),
    "agent must be an object of the class Agent, or a subclass of it, not <class 'int'>": (
        lambda results: proctor.run(SUITE, agent=int, results=results)  # type: ignore[arg-type]
    ),
    "the agent Unfinished lacks solve and name; see docs/plugins.md": (
        lambda results: proctor.run(SUITE, agent=Unfinished, results=results)
    ),
}


@pytest.mark.parametrize("sentence", WRONG)
def test_a_value_of_a_wrong_type_is_one_sentence_and_nothing_is_written(results: Path, sentence: str) -> None:
    with pytest.raises(UsageError) as refused:
        WRONG[sentence](results)
    assert refused.value.sentence == sentence
    assert not results.exists()


def test_a_text_that_is_no_prediction_is_not_taken_for_the_oracle(results: Path) -> None:
    with pytest.raises(UsageError, match="the predictions are the text 'predictions"):
        proctor.evaluate(SUITE, "predictions.jsonl", limit=1)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="jobs must be a whole number from 1 to 1,000,000, not 0"):
        proctor.evaluate(SUITE, "oracle", jobs=0)


def test_importing_it_imports_next_to_nothing() -> None:
    look = "import sys, proctor; print([name for name in sys.modules if 'proctor.' in name], 'typing' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", look], env={"PYTHONPATH": _source()}, capture_output=True, check=True
    )
    assert done.stdout == b"['proctor.core'] False\n"
    look = "import sys, proctor; proctor.Task; print('asyncio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, check=True)
    assert done.stdout == b"False\n"


@pytest.mark.slow
def test_a_run_is_made_read_again_and_gone_on_with(results: Path) -> None:
    told: list[tuple[str, int, str]] = []
    made = proctor.run(
        SUITE,
        agent="oracle",
        tasks=[TASK, OTHER],
        isolation=False,
        results=results,
        on_trial_finished=lambda task, sample, result: told.append((task, sample, str(result and result.status))),
    )
    assert (made.name, made.trials_left, made.stopped_by) == (f"{SUITE}/run-001", 0, None)
    assert sorted(told) == [(TASK, 1, "resolved"), (OTHER, 1, "resolved")]
    assert {result.task_id: result.status for result in made} == dict.fromkeys((TASK, OTHER), proctor.Status.RESOLVED)
    again = proctor.load_results("run-001", results=results)
    assert (again.config, again.summary, again.trials_left) == (made.config, made.summary, 0)
    assert again.task(TASK) == made.task(TASK)
    (results / f"{SUITE}/run-001/journal.jsonl").write_text("")
    before = told[:]
    resumed = proctor.resume(
        made.folder, on_trial_finished=lambda task, sample, _: told.append((task, sample, "again"))
    )
    assert (resumed.trials_left, len(told) - len(before)) == (0, 2)


def test_a_sweep_is_made_compared_and_gone_on_with_as_one(results: Path, tmp_path: Path) -> None:
    file = tmp_path / "agents.toml"
    file.write_text(
        f'suite = "{SUITE}"\ntasks = ["{TASK}", "{OTHER}"]\nisolation = false\n'
        'rule = "not worse"\nbaseline = "agent=nop"\n[grid]\nagent = ["nop", "oracle"]\n'
    )
    told: list[str] = []
    made = proctor.sweep(file, results=results, on_trial_finished=lambda task, *_: told.append(task))
    assert (made.name, made.trials_left, sorted(told)) == (f"{SUITE}/sweep-001", 0, sorted([TASK, OTHER] * 2))
    assert {label: run.summary.resolved for label, run in made.runs.items()} == {"agent=nop": 0, "agent=oracle": 2}
    assert (made.sweep.reference, made.outcome.chosen) == ("agent=nop", ("agent=oracle",))
    oracle = made.runs["agent=oracle"]
    (oracle.folder / "journal.jsonl").write_text("")
    with pytest.raises(UsageError, match="sweep"):
        proctor.resume(oracle.folder)
    again = proctor.resume_sweep("sweep-001", results=results, on_trial_finished=lambda task, *_: told.append(task))
    assert (len(told), again.trials_left, again.outcome.chosen) == (6, 0, made.outcome.chosen)
    with pytest.raises(UsageError, match="there is no sweep 'sweep-009'"):
        proctor.resume_sweep("sweep-009", results=results)


def test_a_scripted_model_answers_a_command_of_ones_own(results: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.yaml"
    script.write_text("default:\n  - text: nothing to be done\n")
    ask = (
        "import os, json, urllib.request as u;"
        "body=json.dumps({'model':os.environ['PROCTOR_MODEL'],'max_tokens':9,"
        "'messages':[{'role':'user','content':'hello'}]}).encode();"
        "u.urlopen(u.Request(os.environ['ANTHROPIC_BASE_URL']+'/v1/messages',body,"
        "{'content-type':'application/json','x-api-key':os.environ['ANTHROPIC_API_KEY']})).read()"
    )
    made = proctor.run(
        SUITE,
        agent="command",
        command=[sys.executable, "-c", ask],
        model=f"script:{script}",
        tasks=[TASK],
        isolation=False,
        results=results,
    )
    (result,) = made
    assert (result.status, [usage.requests for usage in result.usage]) == (proctor.Status.UNRESOLVED, [1])


def test_answers_are_graded_and_tasks_are_proved(results: Path, tmp_path: Path) -> None:
    report = proctor.evaluate(SUITE, "oracle", tasks=[TASK], isolation=False)
    assert (report.summary.resolved, report.invocation.oracle) == (1, True)
    nothing = proctor.Prediction(task_id=TASK, patch_kind=proctor.PatchKind.UNIFIED_DIFF, content=b"")
    seen: list[proctor.TaskEvaluation] = []
    report = proctor.evaluate(SUITE, [nothing], tasks=[TASK], isolation=False, on_evaluated=seen.append)
    assert [one.verdict.cause for one in seen] == [proctor.Cause.EMPTY]
    (health,) = proctor.validate(SUITE, tasks=[TASK], isolation=False)
    assert health.healthy, health.problems


def test_a_broken_task_that_is_asked_for_is_reported_and_no_other(results: Path) -> None:
    class Cracked(toy_benchmark.Toy):
        def invalid_tasks(self) -> tuple[proctor.InvalidTask, ...]:
            return tuple(proctor.InvalidTask(task_id=name, problems=("cracked",)) for name in ("toy-9", "toy-8"))

    report = proctor.evaluate(Cracked(1), "oracle", tasks=["toy-9"], isolation=False)
    assert [(one.task_id, one.verdict.cause) for one in report.tasks] == [("toy-9", proctor.Cause.INVALID_TASK)]
    (health,) = proctor.validate(Cracked(1), tasks=["toy-9"], isolation=False)
    assert (health.task_id, health.problems) == ("toy-9", ("cracked",))


async def test_within_an_event_loop_the_async_functions_are_used(results: Path) -> None:
    with pytest.raises(UsageError, match=r"use `await proctor\.run_async"):
        proctor.run("core-mini", agent="nop")
    made = await asyncio.wait_for(
        proctor.run_async(toy_benchmark.Toy(3), agent="nop", isolation=False, results=results, concurrency=3), 60
    )
    assert made.summary.unresolved == 3


@pytest.mark.parametrize(
    ("benchmark", "options", "sentence"),
    [
        ("nowhere", {"agent": "nop"}, "there is no benchmark 'nowhere'"),
        (SUITE, {"agent": "clod", "model": "sonnet"}, "there is no agent 'clod'"),
        (SUITE, {"agent": "nop", "tasks": ["x"]}, "there is no task 'x'"),
        (SUITE, {}, "the agent claude_code needs a model"),
    ],
)
def test_an_invalid_request_is_refused_in_one_sentence_and_makes_no_run(
    results: Path, benchmark: str, options: proctor.RunOptions, sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        proctor.run(benchmark, **options)
    assert not results.exists()


def _source() -> str:
    return os.fspath(Path(proctor.__file__).parent.parent)
