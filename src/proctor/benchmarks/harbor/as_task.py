"""A task of Harbor's as one of ours: what the agent is shown, and what it never sees."""

from collections.abc import Mapping

from proctor.benchmarks.harbor.preparation import limits_of, network_of
from proctor.benchmarks.harbor.solution import solution_script
from proctor.benchmarks.harbor.task import HarborTask
from proctor.core.task import ImageSource, Oracle, PrivatePart, PublicPart, SubmissionKind, Task, TaskStep


def as_task(task: HarborTask, benchmark: str, known: Mapping[str, str]) -> Task:
    """A task of Harbor's as one of ours."""
    metadata = task.metadata
    categories = {name: str(metadata[name]) for name in ("difficulty", "category") if metadata.get(name)}
    tags = metadata.get("tags")
    own_tags = (str(tag) for tag in tags) if isinstance(tags, list) else ()
    first = task.steps[0]
    return Task(
        id=task.name,
        benchmark=benchmark,
        public=PublicPart(
            instruction=first.instruction,
            source=ImageSource(
                image=task.environment.image or f"built from {task.name}", workdir=task.environment.workdir or "/"
            ),
            submission=SubmissionKind.STATE,
            network=network_of(first.network or task.environment.network)[0],
            limits=limits_of(task.environment, first.agent_seconds),
            steps=tuple(
                TaskStep(name=step.name, instruction=step.instruction, wall_seconds=step.agent_seconds)
                for step in task.steps
                if step.name
            ),
            mcp_servers=task.mcp_servers,
            skills_dir=task.skills_dir,
        ),
        private=PrivatePart(
            oracle=_oracle(task, known) if task.has_solution else None,
            extra={"digest": task.digest, "schema": task.schema, "verifier_seconds": first.verifier.seconds},
        ),
        categories=categories,
        tags=(*categories.values(), *own_tags),
    )


def _oracle(task: HarborTask, known: Mapping[str, str]) -> Oracle:
    scripts = {step.name: solution_script(task, step, known) for step in task.steps}
    return Oracle(text=scripts[task.steps[0].name], steps=scripts if task.has_steps else {})
