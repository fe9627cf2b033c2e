from pathlib import Path


def test_lines():
    assert Path("/app/out/lines.txt").read_text().splitlines() == ["red", "green", "blue"]


def test_they_were_counted_where_the_agent_worked():
    assert int(Path("/app/out/count.txt").read_text()) == 3
