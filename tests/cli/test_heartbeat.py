"""Signs of life while nothing else is logged."""

from proctor.cli.heartbeat import Heartbeat
from waiting import until


def test_the_heartbeat_writes_after_a_silence() -> None:
    now, running, lines = [0.0], ["building a"], list[str]()
    heart = Heartbeat(lambda: running[0], seconds=30, write=lines.append, clock=lambda: now[0])
    for moment in (10.0, 29.0, 31.0, 45.0):
        now[0] = moment
        heart.check()
    assert lines == ["building a"]
    heart.logged()
    now[0] = 74.0
    heart.check()
    assert lines == ["building a"]
    running[0] = ""
    now[0] = 200.0
    heart.check()
    assert lines == ["building a"], "nothing is running"


def test_the_heartbeat_writes_until_its_block_ends() -> None:
    lines: list[str] = []
    with Heartbeat(lambda: "building a", seconds=0.01, write=lines.append):
        until(lambda: len(lines) > 1)
    count = len(lines)
    assert lines == ["building a"] * count
