"""The pipeline from the inside: what is done again and what is not, and who pays for a mistake."""

import asyncio
import errno
import random
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from toy_benchmark import Toy

from proctor.core.benchmark import GradingContext
from proctor.core.causes import Cause
from proctor.core.environment import Environment, EnvironmentSpec
from proctor.core.errors import InfrastructureError, InvalidData, RetryableError, UsageError
from proctor.core.evaluation import Prediction, TaskEvaluation
from proctor.core.run import JournalEntry
from proctor.core.task import Task
from proctor.results import Journal, read_journal, usage_cost
from proctor.results.attempt_record import attempt_file
from sessions import TOY_COMMAND, Toys, script
from toy_provider import ANSWER_USD, toy_provider
from waiting import PATIENCE, eventually

# More than the estimate for a request of a toy agent that has no response.
UNANSWERED_USD = 0.025


class Trap(Toy):
    """A toy benchmark that raises where and as often as it is told to."""

    def __init__(self, count: int = 3, **errors: Any) -> None:
        super().__init__(count)
        self.errors: dict[str, list[BaseException]] = errors
        self.calls: list[str] = []

    def _spring(self, what: str, task: Task) -> None:
        self.calls.append(f"{what} {task.id}")
        if task.id == "toy-0002" and self.errors.get(what):
            raise self.errors[what].pop(0)

    async def prepare(self, task: Task, folder: Path) -> EnvironmentSpec:
        self._spring("prepare", task)
        return await super().prepare(task, folder)

    async def collect(self, task: Task, environment: Environment, folder: Path) -> Prediction:
        self._spring("collect", task)
        return await super().collect(task, environment, folder)

    async def grade(self, task: Task, prediction: Prediction, context: GradingContext) -> TaskEvaluation:
        context.folder.mkdir(parents=True)
        (context.folder / "log.txt").write_text("this was tried")
        self._spring("grade", task)
        shutil.rmtree(context.folder)
        return await super().grade(task, prediction, context)


def lines(toys: Toys) -> list[str]:
    return [f"{entry.task_id} {entry.attempt} {entry.stage}" for entry in read_journal(toys.store.journal)]


async def test_the_journal_has_every_stage_of_every_attempt(toys: Toys) -> None:
    toys.benchmark = Toy(1)
    await toys.run(agent="oracle")
    entries = list(read_journal(toys.store.journal))
    assert [entry.stage for entry in entries] == ["prepared", "collected", "graded", "recorded"]
    assert [entry.cause for entry in entries] == [None, None, None, Cause.SOLVED]
    assert [entry.cost_usd for entry in entries] == [None, 0, None, None]


@pytest.mark.parametrize("stage", ["prepare", "collect"])
async def test_an_infrastructure_failure_is_retried_and_every_attempt_is_kept(toys: Toys, stage: str) -> None:
    toys.benchmark = Trap(3, **{stage: [RetryableError("the environment is gone")] * 2})
    ended = await toys.run(agent="oracle")
    assert toys.outcomes()["toy-0002"] == ("resolved", "solved", 3)
    assert ended.summary.resolved == 3
    attempts = toys.store.result("toy-0002").attempts
    assert [attempt.cause for attempt in attempts] == [Cause.ENGINE_GONE, Cause.ENGINE_GONE, Cause.ANSWERED]
    assert [attempt.detail for attempt in attempts[:2]] == ["the environment is gone"] * 2
    assert all((toys.store.folder / attempt.logs / "attempt.json").exists() for attempt in attempts)
    assert lines(toys).count("toy-0002 1 answered") == 1
    assert lines(toys).count("toy-0002 3 collected") == 1


@pytest.mark.parametrize("retries", [2, 0])
async def test_an_answer_that_could_not_be_collected_is_not_paid_for_again(toys: Toys, retries: int) -> None:
    """Not by another try, and not by another session."""
    toys.benchmark = Trap(3, collect=[RetryableError("the environment is gone")])
    async with toy_provider() as provider:
        await toys.create(provider)
        await toys.resume(provider, retries=retries)
        if not retries:
            assert toys.outcomes()["toy-0002"] == ("error", "engine_gone", 1)
            await toys.resume(provider, retry_errors=True)
        assert toys.outcomes()["toy-0002"] == ("resolved", "solved", 2)
        assert provider.asked.total() == 3 * provider.turns
    usage = [usage_cost(attempt.usage) for attempt in toys.store.result("toy-0002").attempts]
    assert usage == [pytest.approx(provider.turns * ANSWER_USD), 0]


async def test_a_disk_that_is_full_when_an_answer_is_recorded_stops_the_run_and_costs_nothing(toys: Toys) -> None:
    toys.benchmark = Toy(1)
    async with toy_provider() as provider:
        await toys.create(provider)
        full = toys.store.logs("toy-0001", 1, 1) / "graded.json"
        full.parent.mkdir(parents=True)
        full.symlink_to("/dev/full")
        ended = await toys.resume(provider)
        assert (ended.stopped_by, ended.trials_left) == (Cause.DISK_FULL, 1)
        assert ended.detail == "the run cannot be written: No space left on device"
        full.unlink()
        ended = await toys.resume(provider)
        assert (ended.stopped_by, ended.trials_left, ended.summary.resolved) == (None, 0, 1)
        assert provider.asked.total() == provider.turns
    assert len(toys.store.result("toy-0001").attempts) == 1


async def test_a_persistent_failure_ends_as_an_error_after_the_last_attempt(toys: Toys) -> None:
    toys.benchmark = Trap(prepare=[InfrastructureError("no", cause=Cause.ENVIRONMENT_FAILED)] * 9)
    ended = await toys.run(agent="oracle")
    assert toys.outcomes()["toy-0002"] == ("error", "environment_failed", 3)
    assert (ended.summary.resolved, ended.summary.errors, ended.trials_left) == (2, 1, 0)


async def test_a_permanent_failure_is_not_retried(toys: Toys) -> None:
    toys.benchmark = Trap(prepare=[InvalidData("the task is broken")] * 9)
    await toys.run(agent="oracle")
    assert toys.outcomes()["toy-0002"] == ("error", "invalid_task", 1)


MISTAKES = [KeyError("oops"), FileNotFoundError(errno.ENOENT, "No such file or directory", "oops")]


# A file that is not there when the work is collected is the agent's own failure.
@pytest.mark.parametrize(("stage", "mistake"), [*(("prepare", one) for one in MISTAKES), ("collect", MISTAKES[0])])
async def test_a_plugins_mistake_costs_its_task_one_attempt_and_leaves_a_traceback(
    toys: Toys, stage: str, mistake: Exception
) -> None:
    toys.benchmark = Trap(3, **{stage: [mistake] * 9})
    ended = await toys.run(agent="oracle")
    assert (ended.summary.resolved, ended.summary.errors) == (2, 1)
    assert toys.outcomes()["toy-0002"] == ("error", "internal_error", 1)
    (attempt,) = toys.store.result("toy-0002").attempts
    assert attempt.detail == f"internal error: {type(mistake).__name__}: {mistake} (see crash.log)"
    crash = (toys.store.folder / attempt.logs / "crash.log").read_text()
    assert crash.startswith("Traceback")
    assert "in _spring" in crash


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda one: type(one).__name__)
async def test_a_graders_mistake_is_no_verdict_on_the_answer_is_made_once_and_leaves_a_traceback(
    toys: Toys, mistake: Exception
) -> None:
    toys.benchmark = trap = Trap(grade=[mistake] * 9)
    await toys.run(agent="oracle")
    assert toys.outcomes()["toy-0002"] == ("error", "internal_error", 1)
    assert trap.calls.count("grade toy-0002") == 1
    assert "in _spring" in (toys.store.logs("toy-0002", 1, 1) / "grading/crash.log").read_text()


async def test_temporary_os_errors_are_retried_and_leave_a_traceback(toys: Toys) -> None:
    toys.benchmark = Trap(prepare=[OSError(errno.EIO, "disk")])
    await toys.run(agent="oracle")
    assert toys.outcomes()["toy-0002"] == ("resolved", "solved", 2)
    assert "in _spring" in (toys.store.logs("toy-0002", 1, 1) / "crash.log").read_text()


async def test_grading_that_failed_is_tried_again_in_a_place_of_its_own(toys: Toys) -> None:
    toys.benchmark = trap = Trap(grade=[RetryableError("engine down"), OSError(errno.EIO, "disk")])
    await toys.run(agent="oracle")
    assert toys.outcomes()["toy-0002"] == ("resolved", "solved", 1)
    assert trap.calls.count("prepare toy-0002") == 1, "the answer is not to blame, and is not asked for again"
    logs = toys.store.logs("toy-0002", 1, 1)
    assert sorted(path.name for path in logs.glob("grading*")) == ["grading", "grading-2", "grading-3"]
    assert (logs / "grading" / "log.txt").exists()
    graded = msgspec.json.decode((logs / "graded.json").read_bytes())
    assert graded["earlier_errors"] == ["engine_gone: engine down", "environment_failed: disk"]


async def test_a_full_disk_stops_the_run_and_the_answer_waits_for_its_grade(toys: Toys) -> None:
    toys.benchmark = trap = Trap(grade=[OSError(errno.ENOSPC, "No space left on device")])
    ended = await toys.run(agent="oracle", concurrency=1, grade_concurrency=1)
    assert ended.stopped_by is Cause.DISK_FULL
    assert "toy-0002" not in toys.outcomes()
    ended = await toys.resume()
    assert (ended.trials_left, ended.summary.resolved) == (0, 3)
    assert toys.outcomes()["toy-0002"] == ("resolved", "solved", 1)
    assert trap.calls.count("collect toy-0002") == 1


async def test_a_usage_error_stops_the_run_after_running_trials_have_ended(toys: Toys) -> None:
    toys.benchmark = Trap(4, prepare=[UsageError("this cannot be", fix="do that")])
    await toys.create(agent="oracle", concurrency=1)
    with pytest.raises(UsageError, match="this cannot be; do that"):
        await toys.resume()
    assert toys.outcomes() == {"toy-0001": ("resolved", "solved", 1)}
    assert (await toys.resume()).summary.resolved == 4


async def test_an_error_can_be_tried_again_later_and_a_grade_without_a_new_answer(toys: Toys) -> None:
    toys.benchmark = trap = Trap(prepare=[], grade=[InfrastructureError("no grader", cause=Cause.GRADER_FAILED)] * 3)
    await toys.run(agent="oracle")
    assert toys.outcomes()["toy-0002"] == ("error", "grader_failed", 1)
    assert (await toys.resume()).summary.errors == 1, "an error is a result, until it is asked for again"
    ended = await toys.resume(retry_errors=True)
    assert (ended.summary.errors, ended.summary.resolved) == (0, 3)
    assert toys.outcomes()["toy-0002"] == ("resolved", "solved", 1)
    assert trap.calls.count("collect toy-0002") == 1


async def test_waits_end_when_the_run_stops(toys: Toys) -> None:
    """One task waits an hour before its next try; another finds that no task can fare better."""
    toys.benchmark = Trap(prepare=[RetryableError("later"), RetryableError("never reached")])

    async def full(task: Task, prediction: Prediction, context: GradingContext) -> TaskEvaluation:
        await eventually(lambda: "toy-0002 1 answered" in lines(toys), "the first failure of toy-0002")
        raise OSError(errno.ENOSPC, "No space left on device")

    toys.benchmark.grade = full  # type: ignore[method-assign]
    await toys.create(agent="oracle", concurrency=3)
    ended = await asyncio.wait_for(toys.resume(retry_seconds=3600), PATIENCE)
    assert ended.stopped_by is Cause.DISK_FULL
    # It has not used up its tries: the next session begins another attempt.
    assert [line for line in lines(toys) if line.startswith("toy-0002")] == [
        "toy-0002 1 prepared",
        "toy-0002 1 answered",
    ]


async def test_errors_during_cancellation_do_not_keep_the_run_going(toys: Toys) -> None:
    """An environment that cannot be stopped must not turn Ctrl-C into one more attempt."""
    started = asyncio.Event()

    class Sticky(Toy):
        async def prepare(self, task: Task, folder: Path) -> EnvironmentSpec:
            started.set()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                raise RetryableError("it will not stop") from None
            raise AssertionError

    toys.benchmark = Sticky(3)
    await toys.create(agent="oracle", concurrency=3)
    session = asyncio.create_task(toys.resume())
    await started.wait()
    await asyncio.sleep(0.05)
    session.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(session, PATIENCE)
    assert all(line.endswith("1 prepared") for line in lines(toys))


async def test_a_run_that_is_cut_off_after_any_line_of_its_journal_ends_the_same(toys: Toys, tmp_path: Path) -> None:
    toys.benchmark = Trap(3, prepare=[RetryableError("once")])
    await toys.run(agent="oracle", concurrency=1)
    whole, expected = toys.store.folder, toys.outcomes()
    journal = (whole / "journal.jsonl").read_bytes().splitlines(keepends=True)
    chance = random.Random(3)
    for kept in range(len(journal) + 1):
        cut = Toys(tmp_path / f"cut-{kept}", Trap(3))
        copy = tmp_path / f"cut-{kept}" / "results/toy/run-001"
        shutil.copytree(whole, copy)
        torn = journal[kept][: chance.randint(0, 20)] if kept < len(journal) else b""
        (copy / "journal.jsonl").write_bytes(b"".join(journal[:kept]) + torn)
        cut.store = type(toys.store)(copy)
        ended = await cut.resume()
        assert (ended.trials_left, ended.summary.resolved) == (0, 3)
        assert {task: found[:2] for task, found in cut.outcomes().items()} == {
            task: found[:2] for task, found in expected.items()
        }
        finished = sum(b'"collected"' in line for line in journal[:kept])
        assert isinstance(cut.benchmark, Trap)
        assert sum(call.startswith("collect") for call in cut.benchmark.calls) == 3 - finished
        # What was there of earlier attempts is there still, and no folder was used twice.
        for result in cut.store.results():
            assert [attempt.number for attempt in result.attempts] == list(range(1, len(result.attempts) + 1))


async def test_a_task_may_spend_its_limit_once_however_often_it_is_begun_again(toys: Toys) -> None:
    toys.benchmark = Toy(1)
    # Slow enough that a session is cut short within its first new answer, also on a busy machine.
    async with toy_provider(turns=9, delay=0.7) as provider:
        # Stopped after some of its answers, it gets no more than the rest. What was under way when it was stopped is
        # charged too, as an estimate.
        limit = 5.5 * ANSWER_USD
        await toys.create(provider, max_cost_per_task=limit)
        for _ in range(3):
            session = asyncio.create_task(toys.resume(provider))
            served = provider.served.total()
            while provider.served.total() == served and not session.done():
                await asyncio.sleep(0.005)
            session.cancel()
            await asyncio.gather(session, return_exceptions=True)
        await toys.resume(provider)
    (result,) = toys.store.results()
    assert (str(result.cause), str(result.status)) == ("task_budget", "unresolved")
    assert set(provider.served.values()) == {1}
    (usage,) = result.usage
    assert usage.cost_usd is not None
    assert usage.cost_usd - usage.estimated_usd == pytest.approx(provider.served.total() * ANSWER_USD)
    # Exceeded by one request at most: the last one, an answer or one that was cut short.
    assert limit <= usage.cost_usd < limit + UNANSWERED_USD
    assert provider.asked.total() * ANSWER_USD <= usage.cost_usd


async def test_a_trial_whose_limit_is_spent_asks_for_nothing_more_however_often_it_is_resumed(toys: Toys) -> None:
    toys.benchmark = Toy(1)
    async with toy_provider(turns=9) as provider:
        await toys.run(provider, max_cost_per_task=ANSWER_USD)
        for _ in range(3):
            # As a kill leaves it that comes before the attempt has ended.
            begun = [
                line for line in toys.store.journal.read_bytes().splitlines(keepends=True) if b'"prepared"' in line
            ]
            toys.store.journal.write_bytes(b"".join(begun))
            toys.store.result_file("toy-0001", 1).unlink()
            for file in toys.store.folder.glob("logs/*/*/attempt.json"):
                file.unlink()
            await toys.resume(provider)
        assert provider.asked.total() == 1
    assert toys.outcomes() == {"toy-0001": ("unresolved", "task_budget", 4)}
    (result,) = toys.store.results()
    assert result.usage[0].cost_usd == pytest.approx(ANSWER_USD)
    assert result.usage[0].estimated_requests == 0


async def test_an_agent_that_continues_after_its_budget_is_spent_is_stopped(toys: Toys, tmp_path: Path) -> None:
    toys.benchmark = Toy(1)
    async with toy_provider(turns=2) as provider:
        words = " ".join(TOY_COMMAND)
        program = script(tmp_path, f"import os\nos.system({words!r})\nwhile True: pass\n")
        await toys.create(provider, command=program, max_cost_per_task=ANSWER_USD)
        await asyncio.wait_for(toys.resume(provider, grace_seconds=0.3), PATIENCE)
    assert toys.outcomes() == {"toy-0001": ("unresolved", "task_budget", 1)}


async def test_an_attempt_that_may_pay_begins_only_when_the_journal_says_so_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line that is only noted may be lost in a power cut, and with it that the attempt, and its recording, exist."""
    noted: list[JournalEntry] = []
    note = Journal.append

    def listen(journal: Journal, entry: JournalEntry) -> None:
        noted.append(entry)
        note(journal, entry)

    monkeypatch.setattr(Journal, "append", listen)
    async with toy_provider() as provider:
        await Toys(tmp_path / "paying", Toy(1)).run(provider)
    assert noted == []
    await Toys(tmp_path / "free", Toy(1)).run(agent="oracle")
    assert [entry.stage for entry in noted] == ["prepared"]


async def test_a_broken_line_in_the_journal_is_named_and_nothing_is_done(toys: Toys) -> None:
    await toys.create(agent="oracle")
    toys.store.journal.write_text("rubbish\n")
    with pytest.raises(InvalidData, match=r"journal\.jsonl:1"):
        await toys.resume()
    assert toys.outcomes() == {}


async def test_trials_run_in_order_and_agents_and_graders_have_limits_of_their_own(toys: Toys) -> None:
    class Slow(Toy):
        grading = answering = most_grading = most_answering = 0

        async def prepare(self, task: Task, folder: Path) -> EnvironmentSpec:
            self.answering += 1
            self.most_answering = max(self.most_answering, self.answering)
            await eventually(lambda: self.most_answering >= 3, "the third attempt at once")
            return await super().prepare(task, folder)

        async def collect(self, task: Task, environment: Environment, folder: Path) -> Prediction:
            prediction = await super().collect(task, environment, folder)
            self.answering -= 1
            return prediction

        async def grade(self, task: Task, prediction: Prediction, context: GradingContext) -> TaskEvaluation:
            self.grading += 1
            self.most_grading = max(self.most_grading, self.grading)
            await eventually(lambda: self.most_grading >= 2, "the second grading at once")
            await asyncio.sleep(0.1)  # time for one more, which there must not be
            self.grading -= 1
            return await super().grade(task, prediction, context)

    toys.benchmark = slow = Slow(8)
    await toys.run(agent="nop", concurrency=3, grade_concurrency=2)
    assert (slow.most_answering, slow.most_grading) == (3, 2)
    started = [line for line in toys.observer.lines if line.startswith("started")]
    assert started == [f"started toy-{number:04}" for number in range(1, 9)]


async def test_a_commit_that_cannot_be_written_ends_the_session_with_the_reason(
    toys: Toys, monkeypatch: pytest.MonkeyPatch
) -> None:
    await toys.create(agent="oracle")

    async def full(self: Journal, *entries: JournalEntry, **files: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Journal, "commit", full)
    ended = await toys.resume()
    assert (ended.stopped_by, ended.trials_left) == (Cause.DISK_FULL, 3)
    assert ended.detail == "the run cannot be written: No space left on device"
    monkeypatch.undo()
    assert (await toys.resume()).summary.resolved == 3


async def test_a_result_that_cannot_be_read_is_graded_again_or_asked_for_again(toys: Toys) -> None:
    async with toy_provider(turns=1) as model:
        before = await toys.run(model)
        asked = model.asked.total()
        broken = {number: toys.store.result_file(f"toy-000{number}", 1) for number in (1, 2, 3)}
        broken[1].write_bytes(broken[1].read_bytes()[:100])  # as a disk error leaves it
        broken[2].unlink()
        assert (await toys.resume(model)).summary == before.summary
        assert model.asked.total() == asked  # nobody was asked again
        broken[3].write_text("{}")
        logs = toys.store.logs("toy-0003", 1, 1)
        attempt_file(logs).write_text("")
        after = await toys.resume(model)
        assert (after.summary.resolved, after.trials_left) == (3, 0)
        assert [attempt.cause for attempt in toys.store.result("toy-0003").attempts] == [
            Cause.INTERRUPTED,
            Cause.ANSWERED,
        ]
        broken[1].unlink()
        (toys.store.logs("toy-0001", 1, 1) / "submission.diff").unlink()
        assert (await toys.resume(model)).summary.resolved == 3
