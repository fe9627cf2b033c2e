"""Synthetic instances of all four shapes in containers, graded by us, and those of SWE-bench by its own harness too."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import swe_official
from environment_factory import sh
from proctor.benchmarks.swe.benchmark import SweBenchmark
from proctor.benchmarks.swe.evo_grader import SweEvoGrader
from proctor.benchmarks.swe.feature_grader import FeatureBenchGrader
from proctor.benchmarks.swe.harness_reports import SweOutcome, read_outcomes, to_swebench_report
from proctor.benchmarks.swe.official_grader import OfficialGrader
from proctor.benchmarks.swe.pro_grader import SweBenchProGrader
from proctor.benchmarks.swe.rows import evo_row, feature_row, pro_row, read_swe_rows, swe_bench_row
from proctor.benchmarks.swe.swe_bench_grader import SweBenchGrader
from proctor.core.benchmark import DatasetInfo, GradeOptions, GradingContext
from proctor.core.causes import Cause, Status
from proctor.core.errors import InfrastructureError
from proctor.core.evaluation import Prediction, TaskEvaluation
from proctor.core.submission import PatchKind
from proctor.core.task import Task
from proctor.environments.docker import DockerProvider
from slow_tests import sampled, scaled
from swe_other_worlds import EvoWorld, FeatureWorld, ProWorld
from swe_verified_world import PARSERS, VerifiedWorld

SECONDS = 120  # for what hangs, not for a machine that is busy


@pytest.fixture
async def environments(pro: ProWorld) -> AsyncIterator[DockerProvider]:
    provider = DockerProvider(image_map=pro.image_map)
    yield provider
    await provider.close()


def benchmark(
    name: str, rows: Mapping[str, Any], read: Any, procedure: OfficialGrader[Any], *, again: bool = False
) -> SweBenchmark[Any]:
    good, bad = read_swe_rows(list(rows.values()), read)
    assert not bad
    data = DatasetInfo(benchmark=name, split="test", origin="", revision="", digest="", tasks=len(good), fetched_at="")
    return SweBenchmark(name, data, good, bad, procedure, retest_failures=again)


def task_of(made: SweBenchmark[Any], row: Mapping[str, Any]) -> Task:
    return next(task for task in made.tasks() if task.id == row["instance_id"])


async def graded(
    made: SweBenchmark[Any],
    row: Mapping[str, Any],
    patch: str,
    environments: DockerProvider,
    folder: Path,
    *,
    controls: int = 0,
) -> TaskEvaluation:
    context = GradingContext(
        provider=environments, folder=folder, options=GradeOptions(timeout_seconds=SECONDS, controls=controls)
    )
    prediction = Prediction(task_id=row["instance_id"], patch_kind=PatchKind.UNIFIED_DIFF, content=patch.encode())
    return await made.grade(task_of(made, row), prediction, context)


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "names", scaled(("gold", "empty", "non_applying", "conftest", "fuzzy", "printing"), tuple(PARSERS)), ids=len
)
async def test_ours_and_the_official_harness_say_the_same(
    verified: VerifiedWorld, environments: DockerProvider, tmp_path: Path, names: tuple[str, ...]
) -> None:
    made = benchmark("swe_bench_verified", verified.rows, swe_bench_row, SweBenchGrader())
    chosen = {name: verified.rows[name] for name in names}
    predictions = {row["instance_id"]: verified.patch(name) for name, row in chosen.items()}
    rows = list(chosen.values())
    # The official harness mostly waits for its containers to stop, so it is let run beside ours.
    running = asyncio.create_task(
        asyncio.to_thread(
            swe_official.evaluate, tmp_path / "official", rows, predictions, timeout=SECONDS, workers=len(rows)
        )
    )
    ours = {name: await graded(made, row, verified.patch(name), environments, tmp_path) for name, row in chosen.items()}
    theirs = await running
    verdicts = {name: evaluated.verdict for name, evaluated in ours.items()}
    official = {name: verdict.official or verdict.status for name, verdict in verdicts.items()}
    resolved = {verified.rows[name]["instance_id"] for name, status in official.items() if status is Status.RESOLVED}
    assert resolved == set(theirs["resolved_ids"])
    assert {verdict.task_id for verdict in verdicts.values() if verdict.cause is Cause.EMPTY} == set(
        theirs["empty_patch_ids"]
    )
    broken = {Cause.DOES_NOT_APPLY, Cause.TEST_TIMEOUT}
    assert {verdict.task_id for verdict in verdicts.values() if verdict.cause in broken} == set(theirs["error_ids"])
    # The report of the run, but for guesses about causes and for what is left on the engine.
    outcomes = [
        SweOutcome(
            instance_id=verdict.task_id,
            resolved=official[name] is Status.RESOLVED,
            cause=Cause.SOLVED if official[name] is Status.RESOLVED else verdict.cause,
        )
        for name, verdict in verdicts.items()
    ]
    written = json.loads(to_swebench_report(outcomes, total=[row["instance_id"] for row in rows]))
    guessed = ("infra_failure", "ambiguous_failure", "failure_reasons")
    assert {key: theirs[key] for key in written if not key.startswith(guessed)} == {
        key: value for key, value in written.items() if not key.startswith(guessed)
    }
    # Test by test.
    for name, evaluated in ours.items():
        identity = verified.rows[name]["instance_id"]
        if identity in theirs["reports"]:
            report = json.loads((Path(str(evaluated.artifacts)) / "official" / "report.json").read_text())[identity]
            assert report["tests_status"] == theirs["reports"][identity]["tests_status"]
    expected = {
        "gold": (Status.RESOLVED, Cause.SOLVED),
        "gold_django": (Status.RESOLVED, Cause.SOLVED),
        "empty": (Status.UNRESOLVED, Cause.EMPTY),
        "wrong": (Status.UNRESOLVED, Cause.TESTS_FAILED),
        "non_applying": (Status.UNRESOLVED, Cause.DOES_NOT_APPLY),
        "breaking": (Status.UNRESOLVED, Cause.REGRESSION),
        "flaky": (Status.UNRESOLVED, Cause.TESTS_FAILED),
        "hanging": (Status.UNRESOLVED, Cause.TEST_TIMEOUT),
        "conftest": (Status.UNRESOLVED, Cause.TAMPERED),
        "fuzzy": (Status.RESOLVED, Cause.SOLVED),
        "printing": (Status.UNRESOLVED, Cause.TAMPERED),
    }
    found = {name: (verdict.status, verdict.cause) for name, verdict in verdicts.items()}
    assert found == {name: expected[name] for name in names}
    assert verdicts["printing"].official is Status.RESOLVED
    assert "passes only by its log; in the verification run" in verdicts["printing"].reason
    assert verdicts["conftest"].official is Status.RESOLVED
    assert {finding.code for finding in verdicts["conftest"].findings} == {"test-machinery"}
    assert verdicts["fuzzy"].applied_with == "patch --fuzz=5"


@pytest.mark.slow
async def test_a_failure_is_graded_once_more_before_it_counts(
    verified: VerifiedWorld, environments: DockerProvider, tmp_path: Path
) -> None:
    made = benchmark("swe_bench_verified", verified.rows, swe_bench_row, SweBenchGrader(), again=True)
    evaluated = await graded(made, verified.rows["wrong"], verified.patch("wrong"), environments, tmp_path)
    assert evaluated.notes == ("graded twice (official): unresolved, then unresolved in a retest",)
    folder = Path(str(evaluated.artifacts))
    assert (folder / "official.retest" / "test_output.txt").stat().st_size > 0
    assert set(json.loads((folder / "outcomes.json").read_text())) == {"official", "official_retest"}


@pytest.mark.slow
async def test_an_honest_submission_with_findings_is_believed_once_our_reporter_has_seen_it_pass(
    verified: VerifiedWorld, environments: DockerProvider, tmp_path: Path
) -> None:
    made = benchmark("swe_bench_verified", verified.rows, swe_bench_row, SweBenchGrader())
    suspicious = verified.patch("gold").replace(
        "+    return 3 * number", "+    import sys; return 3 * number if 'pytest' in sys.modules else 3 * number"
    )
    verdict = (await graded(made, verified.rows["gold"], suspicious, environments, tmp_path, controls=1)).verdict
    assert [finding.code for finding in verdict.findings] == ["test-sniffing"]
    assert (verdict.status, verdict.official) == (Status.RESOLVED, None)
    assert verdict.controls is not None
    assert (verdict.controls.controlled, verdict.controls.uncontrolled) == (2, ())
    always = "return type('N', (int,), {'__eq__': lambda self, other: self is not other, '__hash__': int.__hash__})(0)"
    patch = verified._changed("gold", always)
    equal = (await graded(made, verified.rows["gold"], patch, environments, tmp_path / "equal", controls=1)).verdict
    assert (equal.status, equal.cause, equal.official) == (Status.UNRESOLVED, Cause.TAMPERED, Status.RESOLVED)
    assert "control-passed" in {finding.code for finding in equal.findings}


@pytest.mark.slow
async def test_pro_is_graded_by_the_instances_own_scripts(
    pro: ProWorld, environments: DockerProvider, tmp_path: Path
) -> None:
    made = benchmark("swe_bench_pro", pro.rows, pro_row, SweBenchProGrader())
    verdicts = {
        name: (await graded(made, pro.rows[name], pro.patch(name), environments, tmp_path)).verdict
        for name in ("gold", "empty", "non_applying", "breaking", "half", "own_tests")
    }
    assert {name: (verdict.cause, verdict.official) for name, verdict in verdicts.items()} == {
        "gold": (Cause.SOLVED, None),
        "empty": (Cause.EMPTY, None),
        "non_applying": (Cause.DOES_NOT_APPLY, None),
        "breaking": (Cause.REGRESSION, None),
        "half": (Cause.TESTS_FAILED, None),
        "own_tests": (Cause.SOLVED, None),
    }
    # A diff that does not end in a line end is torn to the official grader, which has no other way to apply it.
    patch = pro.patch("gold").rstrip("\n")
    torn = (await graded(made, pro.rows["gold"], patch, environments, tmp_path, controls=1)).verdict
    assert (torn.status, torn.official) == (Status.RESOLVED, Status.UNRESOLVED)
    # Which code its ids mean only its own parser knows: that no test could be altered is said.
    assert torn.controls is not None
    row = made.rows[str(pro.rows["gold"]["instance_id"])]
    assert set(torn.controls.uncontrolled) == {*row.fail_to_pass, *row.pass_to_pass}


@pytest.mark.slow
async def test_evo_is_graded_by_degree(evo: EvoWorld, environments: DockerProvider, tmp_path: Path) -> None:
    made = benchmark("swe_evo", evo.rows, evo_row, SweEvoGrader())
    verdicts = {
        name: (await graded(made, evo.rows[name], evo.patch(name), environments, tmp_path)).verdict
        for name in ("gold", "breaking", "half", "own_tests")
    }
    assert {name: (verdict.cause, verdict.score) for name, verdict in verdicts.items()} == {
        "gold": (Cause.SOLVED, 1.0),
        "breaking": (Cause.REGRESSION, 0.0),
        "half": (Cause.TESTS_FAILED, 0.5),
        "own_tests": (Cause.SOLVED, 1.0),
    }


@pytest.mark.slow
async def test_features_are_graded_by_exit_code_and_pass_rate(
    feature: FeatureWorld, environments: DockerProvider, tmp_path: Path
) -> None:
    made = benchmark("ace_bench", feature.rows, feature_row, FeatureBenchGrader())
    ours = {
        name: await graded(made, feature.rows[name], feature.patch(name), environments, tmp_path)
        for name in ("wrong", "non_applying", "half", "own_tests", "level_2", "unpackaged", "wrong_package")
    }
    report = read_outcomes(Path(str(ours["half"].artifacts)) / "official" / "report.json")
    assert [(outcome.resolved, outcome.score) for outcome in report] == [(False, 0.6667)]
    # The rates are those that the official evaluation at 445dcba gives the same predictions in the same containers.
    assert {name: (one.verdict.cause, one.verdict.score) for name, one in ours.items()} == {
        "wrong": (Cause.TESTS_FAILED, 0.3333),
        "non_applying": (Cause.DOES_NOT_APPLY, 0.0),
        "half": (Cause.TESTS_FAILED, 0.6667),
        "own_tests": (Cause.SOLVED, 1.0),
        "level_2": (Cause.SOLVED, 1.0),
        # Only what the installation has put elsewhere is left when the project is restored.
        "unpackaged": (Cause.TESTS_FAILED, 0.0),
        "wrong_package": (Cause.TESTS_FAILED, 0.0),
    }
    gold = made.oracle(task_of(made, feature.rows["gold"]))
    assert gold is not None
    same = await graded(made, feature.rows["gold"], gold.content.decode(), environments, tmp_path, controls=1)
    assert (same.verdict.cause, same.verdict.score, same.verdict.findings) == (Cause.SOLVED, 1.0, ())
    assert same.verdict.controls is not None
    assert same.verdict.controls.controlled > 0
    assert same.verdict.controls.uncontrolled == ()
    level_2 = task_of(made, feature.rows["level_2"])
    assert made.oracle(level_2) is None
    context = GradingContext(provider=environments, folder=tmp_path, options=GradeOptions())
    with pytest.raises(InfrastructureError, match="no oracle"):
        await made.validate(level_2, context)


@pytest.mark.slow
@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("shape", sampled(["verified", "pro", "evo", "feature"], every=2))
async def test_an_agent_gets_no_future_and_its_work_is_collected_and_graded(
    shape: str, request: pytest.FixtureRequest, environments: DockerProvider, tmp_path: Path
) -> None:
    world = request.getfixturevalue(shape)
    shapes: dict[str, tuple[Any, OfficialGrader[Any]]] = {
        "verified": (swe_bench_row, SweBenchGrader()),
        "pro": (pro_row, SweBenchProGrader()),
        "evo": (evo_row, SweEvoGrader()),
        "feature": (feature_row, FeatureBenchGrader()),
    }
    made = benchmark(shape, {"gold": world.rows["gold"]}, *shapes[shape])
    task = made.tasks()[0]
    spec = await made.prepare(task, tmp_path)
    async with await environments.start(spec) as environment:
        told = await sh(
            environment, "git rev-list --all --not HEAD; git remote; git fsck --unreachable --no-reflogs; git tag"
        )
        assert told.stdout.decode().split() == ([] if shape == "feature" else ["base", "v1"])
        found = await sh(environment, "git cat-file -e " + world.repository.future_commit)
        assert found.exit_code != 0
        searched = await sh(
            environment, "grep -rlE '3 [*] number' / --include=gold.py --include=*.diff; ls -A /tmp /root/my_repo"
        )
        assert searched.stdout.replace(b"/tmp:", b"").strip() == b""
        gold = made.oracle(task)
        assert gold is not None
        # What an agent does: it edits, commits, leaves rubbish behind, and configures git to lie.
        await environment.put(gold.content, "/tmp/answer.diff")
        done = await sh(
            environment,
            "git apply /tmp/answer.diff && git add -A && git -c user.name=A -c user.email=a@b commit -qm done"
            " && mkdir -p calc/__pycache__ && echo x > calc/__pycache__/rubbish.pyc"
            " && echo '* -diff' > .git/info/attributes",
        )
        assert done.exit_code == 0, done.stderr
        prediction = await made.collect(task, environment, tmp_path)
    assert b"rubbish" not in prediction.content
    assert not (tmp_path / "left" / "node_modules").exists()
    assert {line for line in prediction.content.splitlines() if line[:1] in {b"+", b"-"}} == {
        line for line in gold.content.splitlines() if line[:1] in {b"+", b"-"}
    }
    evaluated = await graded(made, world.rows["gold"], prediction.content.decode(), environments, tmp_path)
    assert evaluated.verdict.status is Status.RESOLVED


@pytest.mark.slow
@pytest.mark.usefixtures("own_cache")
async def test_a_sound_instance_is_healthy_and_a_broken_one_says_why(
    verified: VerifiedWorld, environments: DockerProvider, tmp_path: Path
) -> None:
    row = verified.rows["gold"]
    wrong = {**verified.rows["wrong"], "patch": verified.patch("wrong")}
    made = benchmark("swe_bench_verified", {"gold": row, "wrong": wrong}, swe_bench_row, SweBenchGrader())
    options = GradeOptions(timeout_seconds=SECONDS, determinism_runs=1, controls=0)
    context = GradingContext(provider=environments, folder=tmp_path, options=options)
    healthy = await made.validate(task_of(made, row), context)
    assert healthy.healthy, healthy
    sick = await made.validate(task_of(made, wrong), context)
    assert not sick.healthy
    assert sick.pre_patch_ok
    assert not sick.oracle_ok
    assert "0 of 1 fail-to-pass" in sick.problems[0]
