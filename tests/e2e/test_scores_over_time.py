"""`bench run re_bench_demo` from the command line: an agent that improves, and what is kept of how it did."""

import json

import pytest

from cli_world import CliWorld
from paths import PYTHON
from proctor.core.causes import Status
from proctor.environments import local_unavailable_reason

# It asks for its score, improves, asks again: nearest city first, then no crossings, and a last try that is broken.
AGENT = r"""
import json, pathlib, subprocess, time

HEAD = '''
import json, math, sys
def nearest(cities):
    left, order = set(range(1, len(cities))), [0]
    while left:
        order.append(min(left, key=lambda city: math.dist(cities[order[-1]], cities[city])))
        left.remove(order[-1])
    return order
def untangled(cities):
    order, better = nearest(cities), True
    far = [[math.dist(a, b) for b in cities] for a in cities]
    while better:
        better = False
        for i in range(len(order) - 1):
            for j in range(i + 2, len(order) - (i == 0)):
                a, b, c, d = order[i], order[i + 1], order[j], order[(j + 1) % len(order)]
                if far[a][c] + far[b][d] < far[a][b] + far[c][d] - 1e-12:
                    order[i + 1 : j + 1] = order[i + 1 : j + 1][::-1]
                    better = True
    return order
'''
for name in ("nearest", "untangled", "sorted"):
    program = HEAD + "print(json.dumps([%s(cities) for cities in json.load(sys.stdin)]))" % name
    pathlib.Path("solve.py").write_text(program)
    said = json.loads(subprocess.run(["/score/score"], capture_output=True, check=True).stdout)
    print(name, said, flush=True)
"""


async def test_an_agent_that_improves_over_time_is_scored_as_it_goes(cli_world: CliWorld) -> None:
    reason = await local_unavailable_reason()
    if reason is not None:
        pytest.skip(reason)
    agent = cli_world.folder / "agent.py"
    agent.write_text(f"#!{PYTHON}\n{AGENT}")
    agent.chmod(0o755)
    given = ("--agent", "command", "--claude-bin", agent, "--task", "demo_tour/main", "--attempts", 2)
    done = await cli_world.run("bench", "run", "re_bench_demo", *given, "--json")
    assert done.code == 0, done
    assert (done.json["resolved"], done.json["unresolved"]) == (2, 0)
    results = list(cli_world.store("re_bench_demo/run-001").results())
    for result in results:
        verdict = result.verdict
        assert verdict is not None
        assert (verdict.status, verdict.score) == (Status.RESOLVED, 1)
        assert verdict.scores["times_scored"] == 3
        assert verdict.scores["within_2h"] == verdict.scores["within_32h"] >= 1
    logs = cli_world.store("re_bench_demo/run-001").folder / "logs"
    handed_in = [json.loads(file.read_bytes()) for file in logs.rglob("submission.state.json")]
    assert len(handed_in) == 2
    for evidence in handed_in:
        first, second, third = evidence["scores"]
        assert first["score"] > second["score"]
        assert third["score"] is None
        assert first["seconds"] < second["seconds"] < third["seconds"] <= evidence["seconds"]
    assert cli_world.leftovers() == []
