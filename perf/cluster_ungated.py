"""The benchmark of perf/cluster.py, on nodes whose gate lets everything through: the difference is its cost."""

from cluster_plugins import Idle as Idle  # noqa: PLC0414 - the entry point of the benchmark

from proctor.runner.executors import node_gate


async def _wait_for_nothing(gate: node_gate.NodeGate, size: int) -> None:
    gate.written(size)


node_gate.NodeGate.wait_for_copy = _wait_for_nothing  # type: ignore[assignment, method-assign]
