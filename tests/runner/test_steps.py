"""Tasks of several steps: one instruction after the other, each with its own time and usage."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from toy_benchmark import Toy

from proctor.core.benchmark import GradeOptions
from proctor.core.environment import Environment
from proctor.core.result import ModelUsage, Tokens
from proctor.core.task import McpServer, Task, TaskStep
from proctor.runner.step_parts import usage_between
from sessions import Toys, script

STEPS = (
    TaskStep(name="one", instruction="the first"),
    TaskStep(name="two", instruction="the second", wall_seconds=50),
    TaskStep(name="three", instruction="the third"),
)


class Stepped(Toy):
    """A toy with three steps, of which the last may not be begun, or, where it is `blocked`, cannot."""

    def __init__(self, last: str, *, blocked: bool = False) -> None:
        super().__init__(1)
        self.last = last
        self.blocked = blocked
        self.events: list[str] = []

    def tasks(self) -> Sequence[Task]:
        return [
            msgspec.structs.replace(task, public=msgspec.structs.replace(task.public, steps=STEPS))
            for task in super().tasks()
        ]

    async def begin_step(self, task: Task, step: str, environment: Environment, folder: Path) -> bool:
        if self.blocked and step == STEPS[-1].name:
            return False
        self.events.append(f"begin {step}")
        await environment.exec(["sh", "-c", f"echo {step} >step.txt"])
        return True

    async def finish_step(
        self, task: Task, step: str, environment: Environment, folder: Path, options: GradeOptions
    ) -> bool:
        seen = await environment.exec(["cat", "seen.txt"])
        self.events.append(f"finish {step}: {seen.stdout.decode().split()[-1]}")
        return step != self.last


@pytest.mark.parametrize(
    ("benchmark", "begun"), [(Stepped("three"), 3), (Stepped("two"), 2), (Stepped("three", blocked=True), 2)]
)
async def test_steps_are_worked_on_in_order_until_one_is_the_last(
    benchmark: Stepped, begun: int, tmp_path: Path
) -> None:
    toys = Toys(tmp_path, benchmark)
    code = "open('seen.txt', 'a').write(open('step.txt').read()); open('answer.txt', 'w').write('right')"
    ended = await toys.run(agent="command", command=script(tmp_path, code))
    names = [step.name for step in STEPS[:begun]]
    assert benchmark.events == [event for name in names for event in (f"begin {name}", f"finish {name}: {name}")]
    assert ended.summary.resolved == 1
    (result,) = toys.store.results()
    assert [step.name for step in result.steps] == names
    assert all(step.seconds > 0 and step.cause is None and step.cost_usd == 0 for step in result.steps)
    assert result.agent_seconds == pytest.approx(sum(step.seconds for step in result.steps), abs=0.01)


async def test_what_a_task_brings_and_its_agent_does_not_use_is_named_in_the_result(tmp_path: Path) -> None:
    class Equipped(Toy):
        def tasks(self) -> Sequence[Task]:
            parts = {"mcp_servers": (McpServer(name="clock", url="http://localhost"),), "skills_dir": "/skills"}
            return [
                msgspec.structs.replace(task, public=msgspec.structs.replace(task.public, **parts))
                for task in super().tasks()
            ]

    toys = Toys(tmp_path, Equipped(1))
    await toys.run(agent="command", command=script(tmp_path, "open('answer.txt', 'w').write('right')"))
    (result,) = toys.store.results()
    assert result.verdict is not None
    named = {finding.path for finding in result.verdict.findings if finding.code == "not_used_by_agent"}
    assert named == {"MCP servers", "skills"}


def usage(model: str, requests: int, output: int, cost: float | None) -> ModelUsage:
    return ModelUsage(model=model, requests=requests, tokens=Tokens(output=output), cost_usd=cost)


def test_a_step_has_the_usage_between_two_readings() -> None:
    before = [usage("a", 1, 10, 0.1), usage("b", 1, 5, 0.2)]
    after = [usage("a", 3, 40, 0.4), usage("b", 1, 5, 0.2), usage("c", 1, 7, None)]
    assert usage_between(before, after) == (usage("a", 2, 30, 0.3), usage("c", 1, 7, None))
    assert usage_between(after, after) == ()
