"""The toy benchmark, on nodes from which TOY_WITHOUT takes a safeguard out: `gate` or `fence`.

It shows that the tests of both would notice.
"""

import gc
import math
import os

from toy_benchmark import SOURCE as SOURCE  # noqa: PLC0414 - the entry point of the benchmark

from proctor.runner.executors import lease, node_gate


async def _wait_for_nothing(gate: node_gate.NodeGate, size: int) -> None:
    gate.written(size)


without = os.environ.get("TOY_WITHOUT")
if without == "gate":
    node_gate.NodeGate.wait_for_copy = _wait_for_nothing  # type: ignore[assignment, method-assign]
if without == "fence":
    # The driver gives a trial out again all the same. The lease is there before plugins are.
    for one in gc.get_objects():
        if isinstance(one, lease.NodeLease):
            one._ends_at = math.inf
