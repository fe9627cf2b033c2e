"""What `proctor cluster doctor` finds: every node of a cluster side by side, and what is wrong with them."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from proctor.core import VERSION
from proctor.core.formatting import file_size, plural
from proctor.core.record import Record
from proctor.doctor import Check, Diagnosis, diagnose
from proctor.runner.executors.node_check import other_proctor
from proctor.runner.executors.node_report import NodeReport, report_node
from proctor.runner.executors.ray_cluster import ClusterNode, NodeGone, RayCluster

# A difference of clocks beyond this is worth a look: times in results are those of the nodes.
_CLOCK_SECONDS: Final = 2.0
_CLOCK_READINGS: Final = 3
_SHOWN_IMAGES: Final = 5


class ExaminedNode(Record):
    """A node, as far as it could be examined.

    Attributes:
        problem: why it could not be.
        clock_seconds: how far its clock is ahead of this machine's, give or take `clock_error_seconds`.
    """

    name: str
    address: str
    problem: str = ""
    report: NodeReport | None = None
    checks: tuple[Check, ...] = ()
    clock_seconds: float = 0.0
    clock_error_seconds: float = 0.0

    @property
    def usable(self) -> bool:
        """Whether it meets what every run needs."""
        return not self.problem and Diagnosis(checks=self.checks).usable


@dataclass(frozen=True, slots=True)
class ClusterProblem:
    """Something that is wrong, in a sentence; `serious`: runs would refuse a node for it."""

    text: str
    serious: bool


async def diagnose_nodes(cluster: RayCluster, nodes: Sequence[ClusterNode]) -> list[ExaminedNode]:
    """Examine all nodes at once; one that cannot be examined says why."""
    return list(await asyncio.gather(*(_diagnose_nodes(cluster, node) for node in nodes)))


async def _diagnose_nodes(cluster: RayCluster, node: ClusterNode) -> ExaminedNode:
    try:
        version = await cluster.proctor_version(node)
        if (problem := other_proctor(version, VERSION)) is not None:
            return ExaminedNode(name=node.name, address=node.address, problem=problem)
        report, found = await asyncio.gather(
            cluster.run_on(node, report_node, node.name, node.address), cluster.run_on(node, diagnose)
        )
        ahead, error = min([await _read_clock(cluster, node) for _ in range(_CLOCK_READINGS)], key=lambda one: one[1])
    except NodeGone as gone:
        return ExaminedNode(name=node.name, address=node.address, problem=str(gone))
    return ExaminedNode(
        name=node.name,
        address=node.address,
        report=report,
        checks=found.checks,
        clock_seconds=round(ahead, 3),
        clock_error_seconds=round(error, 3),
    )


async def _read_clock(cluster: RayCluster, node: ClusterNode) -> tuple[float, float]:
    """How far a node's clock is ahead of ours, and by how much that can be wrong: half of how long it took."""
    before = time.time()
    theirs = await cluster.run_on(node, _clock)
    after = time.time()
    return theirs - (before + after) / 2, (after - before) / 2


def _clock() -> float:
    # The engine takes no functions that are not written in Python.
    return time.time()


def doctor_table(nodes: Sequence[ExaminedNode]) -> list[list[str]]:
    """A row for each thing, a column for each node."""
    reports = [node.report for node in nodes]
    rows: dict[str, list[str]] = {"address": [node.address for node in nodes]}
    if any(node.problem for node in nodes):
        rows["problem"] = [node.problem for node in nodes]
    rows |= _compared(reports)
    rows["images"] = ["" if one is None else _image_count(one.images) for one in reports]
    rows["free disk"] = ["" if one is None else file_size(one.free_bytes) for one in reports]
    rows["token"] = ["" if one is None else "required" if one.token else "not required" for one in reports]
    rows["spooled attempts"] = ["" if one is None else str(one.spooled) for one in reports]
    rows["clock"] = [
        "" if node.report is None else f"{node.clock_seconds:+.2f} s ± {node.clock_error_seconds:.2f}" for node in nodes
    ]
    checks = [{check.name: check for check in node.checks} for node in nodes]
    for name in dict.fromkeys(name for found in checks for name in found):
        rows[name] = [f"{found[name].state.value}: {found[name].detail}" if name in found else "" for found in checks]
    return [[name, *values] for name, values in rows.items()]


def find_problems(nodes: Sequence[ExaminedNode]) -> list[ClusterProblem]:
    """What is wrong with the nodes, and in what they differ that should not."""
    problems = [
        ClusterProblem(f"{node.name} cannot be used: {node.problem or 'see `proctor doctor` there'}", serious=True)
        for node in nodes
        if not node.usable
    ]
    reports = [node.report for node in nodes if node.report is not None]
    for name, values in _compared(reports).items():
        if len(set(values)) > 1:
            serious = name == "proctor" or name.startswith("data ")
            problems.append(ClusterProblem(f"the nodes differ: {name}", serious))
    problems += [ClusterProblem(text, serious=False) for text in (*_other_images(reports), *_clocks(nodes))]
    problems += [
        ClusterProblem(f"{one.name} asks for no token: whoever reaches it can use it", serious=False)
        for one in reports
        if not one.token
    ]
    return problems


def _other_images(reports: Sequence[NodeReport]) -> list[str]:
    """Tags under which nodes have different images: a run that uses one of them refuses a node."""
    ids: dict[str, set[str]] = {}
    for one in reports:
        for tag, image in (one.images or {}).items():
            ids.setdefault(tag, set()).add(image)
    differing = sorted(tag for tag, found in ids.items() if len(found) > 1)
    more = f", and {len(differing) - _SHOWN_IMAGES} more" if len(differing) > _SHOWN_IMAGES else ""
    return [f"the nodes differ: image {', '.join(differing[:_SHOWN_IMAGES])}{more}"] if differing else []


def _clocks(nodes: Sequence[ExaminedNode]) -> list[str]:
    examined = [node for node in nodes if node.report is not None]
    return [
        f"the clock of {node.name} is {node.clock_seconds:+.1f} s off this machine's"
        for node in examined
        if abs(node.clock_seconds) - node.clock_error_seconds > _CLOCK_SECONDS
    ]


def _compared(reports: Sequence[NodeReport | None]) -> dict[str, list[str]]:
    """What should be the same on all nodes, by its name: a value for each node, empty where it is not known."""
    rows = {
        "proctor": ["" if one is None else one.proctor for one in reports],
        "python": ["" if one is None else one.machine.python for one in reports],
        "processor": ["" if one is None else one.machine.processor for one in reports],
        "cpus": ["" if one is None else str(one.machine.cpus) for one in reports],
        "memory": ["" if one is None else file_size(one.machine.memory_mb << 20) for one in reports],
        "kernel": ["" if one is None else one.machine.kernel for one in reports],
    }
    for name in sorted({name for one in reports if one is not None for name in one.data}):
        rows[f"data {name}"] = ["" if one is None else one.data.get(name, "missing") for one in reports]
    return rows


def _image_count(images: Mapping[str, str] | None) -> str:
    return "no Docker" if images is None else plural(len(images), "image")
