"""What is not done on a cluster: refused before anything is written, and before the engine is asked for."""

from pathlib import Path

import pytest
from toy_benchmark import Toy

from proctor.core.errors import UsageError
from proctor.core.request import EvaluateRequest, RunRequest
from proctor.environments.local import LocalProvider
from proctor.runner.evaluation import open_evaluation
from proctor.runner.session import run_session
from proctor.runner.state import Session


async def test_no_environment_without_isolation_is_on_a_cluster(tmp_path: Path) -> None:
    run = RunRequest(benchmark="core-mini", agent="nop", isolation=False, executor="ray")
    with pytest.raises(UsageError, match="--isolation off is not for clusters"):
        await run_session(run, Session(results=tmp_path))
    graded = EvaluateRequest(benchmark="core-mini", isolation=False, executor="ray", artifacts=str(tmp_path / "found"))
    with pytest.raises(UsageError, match="--isolation off is not for clusters"):
        async with open_evaluation(graded):
            pass
    assert list(tmp_path.iterdir()) == []


async def test_objects_are_not_sent_to_other_nodes(tmp_path: Path) -> None:
    run = RunRequest(benchmark="toy", agent="nop", executor="ray")
    with pytest.raises(UsageError, match="1 object cannot be sent to other nodes: benchmark"):
        await run_session(run, Session(results=tmp_path, benchmark=Toy(1)))
    graded = EvaluateRequest(benchmark="toy", executor="ray", artifacts=str(tmp_path / "found"))
    with pytest.raises(UsageError, match="2 objects cannot be sent to other nodes: benchmark, runner"):
        async with open_evaluation(graded, benchmark=Toy(1), provider=LocalProvider()):
            pass
    assert list(tmp_path.iterdir()) == []
