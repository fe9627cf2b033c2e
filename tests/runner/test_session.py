"""The one way in: what it checks, whoever calls it, and objects in the place of names."""

import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from toy_benchmark import Toy

import proctor
from observations import config
from proctor.agents.nop import Nop
from proctor.core.agent import AgentOutcome, AgentRequest, ProgressCallback
from proctor.core.causes import Cause, Status
from proctor.core.environment import Environment, EnvironmentProvider, EnvironmentSpec
from proctor.core.errors import InfrastructureError, InvalidData, UsageError
from proctor.core.machine import Machine
from proctor.core.record import from_json, to_json
from proctor.core.request import RunRequest
from proctor.core.run import RunConfig
from proctor.core.task import Task
from proctor.environments.local import LocalProvider
from proctor.results import list_runs
from proctor.results.sweeps import sweep_beside
from proctor.runner.session import run_session
from proctor.runner.state import Session
from proctor.runner.sweep_file import read_sweep_file
from sessions import Toys, script
from suite_world import make_instance, make_suite
from toy_provider import toy_provider


class Demanding(Toy):
    """Needs what no machine has, for all tasks or for one."""

    def __init__(self, count: int, *tasks: str) -> None:
        super().__init__(count)
        self.unrunnable = tasks

    def missing_requirement(self, task: Task, machine: Machine, runner: str) -> str | None:
        return "it needs a licence" if task.id in self.unrunnable else None


async def test_a_run_of_which_no_task_can_be_run_here_is_refused_and_not_written(tmp_path: Path) -> None:
    session = Session(benchmark=Demanding(1, "toy-0001"), results=tmp_path / "results")
    with pytest.raises(InfrastructureError, match="no task of those chosen can be run on this machine") as refused:
        await run_session(RunRequest(agent="nop", isolation=False), session)
    assert refused.value.details == ("toy-0001: it needs a licence",)
    with pytest.raises(InfrastructureError, match="no task of those chosen can be run on this machine"):
        await proctor.run_async(Demanding(1, "toy-0001"), agent="nop", isolation=False, results=tmp_path / "results")
    assert not (tmp_path / "results").exists()


async def test_tasks_that_cannot_be_run_here_are_named(tmp_path: Path) -> None:
    lines: list[str] = []
    session = Session(benchmark=Demanding(2, "toy-0002"), results=tmp_path, log=lines.append, dry_run=True)
    assert await run_session(RunRequest(agent="nop", isolation=False), session) == []
    assert lines == ["skipped, cannot be run here: toy-0002: it needs a licence"]
    assert list(tmp_path.iterdir()) == []


async def test_tasks_that_cannot_be_run_here_are_skipped_with_the_reason_and_run_once_they_can_be(toys: Toys) -> None:
    """Nobody is asked about them, nothing is paid, and a session on a machine that can run them does so."""
    async with toy_provider(turns=1) as model:
        toys.benchmark = demanding = Demanding(3, "toy-0002")
        ended = await toys.run(model)
        assert (ended.summary.skipped, ended.summary.errors, ended.trials_left) == (1, 0, 0)
        assert {asked.task for asked in model.asked} == {"toy-0001", "toy-0003"}
        skipped = toys.store.result("toy-0002")
        assert (skipped.status, skipped.cause, skipped.attempts) == (Status.SKIPPED, Cause.NOT_RUNNABLE_HERE, ())
        assert skipped.verdict is not None
        assert skipped.verdict.reason == "it needs a licence"
        journal = toys.store.journal.read_bytes()
        assert (await toys.resume(model)).summary == ended.summary
        assert toys.store.journal.read_bytes() == journal
        demanding.unrunnable = ()
        assert (await toys.resume(model)).summary.resolved == 3
        assert all(times == 1 for times in model.asked.values())


async def test_a_paid_submission_is_not_skipped_where_it_cannot_be_graded(toys: Toys) -> None:
    async with toy_provider(turns=1) as model:
        toys.benchmark = demanding = Demanding(2)
        toys.store = await toys.create(model, retries=0)
        await toys.resume(model)
        lines = toys.store.journal.read_bytes().splitlines(keepends=True)
        of_second = [line for line in lines if b"toy-0002" in line]
        toys.store.journal.write_bytes(b"".join(line for line in lines if line not in of_second[-2:]))
        toys.store.result_file("toy-0002", 1).unlink()
        demanding.unrunnable = ("toy-0002",)
        with pytest.raises(InfrastructureError, match="no task of those chosen can be run"):
            await toys.resume(model)
        assert not toys.store.result_file("toy-0002", 1).exists()
        demanding.unrunnable = ()
        assert (await toys.resume(model)).summary.resolved == 2
        assert all(times == 1 for times in model.asked.values())  # it was graded from what had been submitted


async def test_runs_of_a_sweep_skip_what_cannot_be_run_here(tmp_path: Path) -> None:
    file = tmp_path / "sweep.toml"
    file.write_text('benchmark = "toy"\nisolation = false\n[grid]\nagent = ["nop", "oracle"]\n')
    session = Session(benchmark=Demanding(2, "toy-0001"), results=tmp_path / "results")
    ended = await run_session(read_sweep_file(file), session)
    assert [run.summary.skipped for run in ended] == [1, 1]
    sweep = sweep_beside(ended[0].folder, ended[0].config.sweep)
    assert sweep is not None
    resumed = await run_session(sweep, Session(benchmark=Demanding(2)))
    assert [run.summary.skipped for run in resumed] == [0, 0]


class Unavailable(LocalProvider):
    """Cannot make any environment."""

    async def unavailable_reason(self, spec: EnvironmentSpec | None = None) -> str | None:
        return "the engine does not respond"


async def test_where_no_environment_can_be_made_nothing_is_started_or_recorded(tmp_path: Path, toys: Toys) -> None:
    session = Session(benchmark=Toy(1), provider=Unavailable(), results=tmp_path / "results")
    with pytest.raises(InfrastructureError, match="the engine does not respond"):
        await run_session(RunRequest(agent="nop"), session)
    assert not (tmp_path / "results").exists()
    store = await toys.create(agent="nop")
    with pytest.raises(InfrastructureError, match="the engine does not respond"):
        await run_session(store, session)
    assert not store.journal.exists()


async def test_a_run_is_refused_where_git_is_missing_or_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(benchmark=Toy(1), results=tmp_path / "results")
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**9, 10**9 - 5000, 5000))
        with pytest.raises(InfrastructureError, match=r"results: the disk is full: 5\.0kB are free"):
            await run_session(RunRequest(agent="nop", isolation=False), session)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InfrastructureError, match="git, which makes workspaces and submissions, is not on PATH"):
        await run_session(RunRequest(agent="nop", isolation=False), session)
    assert not (tmp_path / "results").exists()


async def test_a_suite_s_tasks_whose_programs_are_missing_are_skipped_before_an_agent_works(tmp_path: Path) -> None:
    lacking: dict[str, dict[str, Any]] = {
        "requires": {"requires": ["no-such-program"]},
        "command": {"eval": {"format": "tap", "command": ["no-such-runner", "tests"], "arguments": []}},
    }
    for name, changes in {"fine": {}, **lacking}.items():
        make_instance(tmp_path, name, **changes)
    suite = make_suite(tmp_path, "fine", *lacking)
    lines: list[str] = []
    session = Session(results=tmp_path / "results", log=lines.append)
    (ended,) = await run_session(RunRequest(suite=str(suite), agent="oracle", controls=0), session)
    assert {result.task_id: result.status.value for result in ended} == {
        "fine": "resolved",
        "requires": "skipped",
        "command": "skipped",
    }
    for name, program in (("requires", "no-such-program"), ("command", "no-such-runner")):
        (line,) = [line for line in lines if f": {name}: " in line]
        assert f"it needs {program}, which the environment does not have; install {program}" in line


@pytest.mark.parametrize("function", ["resume_async", "resume_sweep_async", "sweep_async", "run_async"])
async def test_a_misspelt_option_is_refused_by_every_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    monkeypatch.setenv("PROCTOR_RESULTS", str(tmp_path / "results"))
    file = tmp_path / "sweep.toml"
    file.write_text('benchmark = "toy"\n[grid]\nagent = ["nop"]\n')
    made = await proctor.run_async(Toy(1), agent="nop", isolation=False)
    name: Any = {"sweep_async": file, "run_async": Toy(1), "resume_async": made.folder}.get(function, "sweep-001")
    with pytest.raises(UsageError, match="there is no option 'max_costs'; did you mean 'max_cost'"):
        await getattr(proctor, function)(name, max_costs=3.0)


class Named(EnvironmentProvider):
    """Local environments under another name, counted."""

    name = "mine"

    def __init__(self, folder: Path) -> None:
        self._local = LocalProvider(isolation=False, environments_dir=folder)
        self.started = 0

    async def start(self, spec: EnvironmentSpec) -> Environment:
        self.started += 1
        return await self._local.start(spec)

    async def digest(self, spec: EnvironmentSpec) -> str:
        return await self._local.digest(spec)

    async def close(self) -> None:
        await self._local.close()


class Counting(Nop):
    """Does nothing, and counts how often."""

    name = "counting"
    solved = 0

    async def solve(
        self, request: AgentRequest, environment: Environment, on_progress: ProgressCallback
    ) -> AgentOutcome:
        type(self).solved += 1
        return await super().solve(request, environment, on_progress)


async def test_a_run_takes_objects_and_needs_the_same_ones_to_be_resumed(tmp_path: Path) -> None:
    provider, agent, benchmark = Named(tmp_path / "environments"), Counting(), Toy(2)
    made = await proctor.run_async(benchmark, agent=agent, runner=provider, results=tmp_path / "results")
    assert (made.summary.unresolved, provider.started, Counting.solved) == (2, 2, 2)
    assert (made.config.agent, made.config.runner, made.config.objects) == (
        *("counting", "mine"),
        ("benchmark", "agent", "runner"),
    )
    (made.folder / "journal.jsonl").write_text("")
    with pytest.raises(UsageError, match=r"an object as its agent, 'counting'; give the same object again, as in proc"):
        await proctor.resume_async(made.folder, benchmark=benchmark, runner=provider)
    again = await proctor.resume_async(made.folder, benchmark=benchmark, agent=Counting, runner=provider)
    assert (again.trials_left, Counting.solved) == (0, 4)
    await provider.close()


async def test_an_image_map_is_an_option_like_any_other(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--image-map is for environments in containers"):
        await proctor.run_async(Toy(1), agent="nop", image_map={"a": "b"}, results=tmp_path)
    with pytest.raises(UsageError, match="image_map must be a table from image names to image names"):
        await proctor.run_async(Toy(1), agent="nop", image_map=[1], results=tmp_path)  # type: ignore[arg-type]
    file = tmp_path / "sweep.toml"
    file.write_text('benchmark = "toy"\nrunner = "docker"\nimage_map = {a = "b"}\n[grid]\nagent = ["nop"]\n')
    (request,) = read_sweep_file(file).configurations.values()
    assert request.image_map == {"a": "b"}


async def test_options_of_a_session_are_not_kept_for_the_next(tmp_path: Path) -> None:
    session = Session(benchmark=Toy(1), results=tmp_path)
    await run_session(RunRequest(agent="nop", isolation=False, retries=7, max_cost=3.0), session)
    (store,) = list_runs("toy", root=tmp_path)
    (again,) = await run_session(store, session, {"max_cost": 5.0})
    assert (again.config.retries, again.config.max_cost, store.config().max_cost) == (2, 5.0, 5.0)


def test_a_configuration_of_version_1_is_read() -> None:
    new = config(
        max_cost=5.0,
        max_cost_per_task=0.5,
        timeout=60.0,
        exclude=("x",),
        trials=2,
        system_prompt="p",
        agent_env={"A": "1"},
    )
    old = msgspec.to_builtins(new)
    old |= {
        "schema_version": "proctor.run_config@1",
        "budget": {"run_usd": old.pop("max_cost"), "task_usd": old.pop("max_cost_per_task")},
        "limits": {"wall_seconds": old.pop("timeout"), "memory_mb": None, "output_bytes": 10_000_000},
        "briefing": {
            "system_prompt": old.pop("system_prompt"),
            "append_system_prompt": old.pop("append_system_prompt"),
            "allowed_tools": old.pop("allowed_tools"),
            "env": old.pop("agent_env"),
        },
        "samples": old.pop("trials"),
        "excluded": old.pop("exclude"),
    }
    assert from_json(to_json(old), RunConfig) == new


async def test_a_resumed_run_runs_the_same_program_or_nothing(tmp_path: Path) -> None:
    program, elsewhere = tmp_path / "agent", tmp_path / "elsewhere"
    program.mkdir()
    (program / "go.sh").write_text("echo right >answer.txt\n")
    toys = Toys(tmp_path, Toy(2))
    command = ("sh", "-c", 'exec sh "$PROCTOR_AGENT/go.sh"')
    with pytest.raises(InfrastructureError, match="there is no such program; say where it is with --agent-bin"):
        await toys.create(agent="command", command=command, program=str(elsewhere))
    await toys.create(agent="command", command=command, program=str(program))
    program.rename(elsewhere)
    with pytest.raises(InfrastructureError, match="there is no such program"):
        await toys.resume()
    (elsewhere / "go.sh").write_text("echo other >answer.txt\n")
    with pytest.raises(InvalidData, match="is not the one that the run was started with"):
        await toys.resume(program=str(elsewhere))
    assert toys.observer.lines == []
    (elsewhere / "go.sh").write_text("echo right >answer.txt\n")
    await toys.resume(program=str(elsewhere))
    assert {status for status, _, _ in toys.outcomes().values()} == {"resolved"}


async def test_a_resumed_run_needs_not_be_told_again_where_its_program_is(tmp_path: Path) -> None:
    program = tmp_path / "agent.sh"
    program.write_text("#!/bin/sh\necho right >answer.txt\n")
    program.chmod(0o755)
    toys = Toys(tmp_path, Toy(1))
    await toys.create(agent="command", program=str(program))
    await toys.resume()
    assert {status for status, _, _ in toys.outcomes().values()} == {"resolved"}


async def test_without_isolation_the_files_of_a_command_are_part_of_the_run(tmp_path: Path) -> None:
    toys = Toys(tmp_path, Toy(1))
    await toys.create(agent="command", command=script(tmp_path, "open('answer.txt', 'w').write('right')"))
    script(tmp_path, "open('answer.txt', 'w').write('other')")
    with pytest.raises(InvalidData, match="is not the one that the run was started with"):
        await toys.resume()
