"""What a success command becomes: another expectation, or a question that no set-up can answer."""

import json
import re
from pathlib import Path

import pytest

from paths import SAMPLES
from proctor.benchmarks.setupbench.altered_commands import altered_commands
from proctor.benchmarks.setupbench.quirks import QUIRKS

TOKEN = "xq7"
# Nothing is known that these must fail: scripts of a repository, and programs whose ways are not known.
_UNKNOWN = re.compile(r"^(timeout \d+s )?(\./|bin/|pipenv|wagtail|fuck)|^npm start")


@pytest.mark.parametrize(
    ("command", "part", "altered"),
    [
        ('redis-cli GET key | grep -q "done" && echo "Setup successful"', "answer", 'grep -q "xq7"'),
        ("redis-cli GET key | grep -q done && echo x", "question", "GET key.xq7 |"),
        ("curl -s http://localhost:80/ | grep -q Hello && echo x", "question", "http://xq7.invalid:80/"),
        ("curl --unix-socket /tmp/s http://localhost/ | grep -q H && echo x", "question", "--unix-socket /tmp/s.xq7"),
        ('psql -c "SELECT COUNT(*) FROM users;" | grep -q 1', "question", "FROM txq7;"),
        ("[ $code -eq 200 ] && echo x", "answer", "-eq 888"),
        ("python3 -m pytest && echo x", "question", "-m pytest /xq7 &&"),
        ("pytest -v && echo x", "question", "pytest /xq7 -v"),
        ("npm ci --ignore-scripts", "question", "npm ci-xq7 --ignore-scripts"),
        ("npm run test && echo x", "question", "npm run test-xq7"),
        ("python3 -c 'import talib' && echo x", "question", "import mxq7"),
        ("ssh -p 9000 localhost echo 'Setup successful' || echo x", "question", "-p 9000 xq7.invalid echo"),
    ],
)
def test_one_part_is_changed(command: str, part: str, altered: str) -> None:
    made = [change for change in altered_commands(command, TOKEN) if change.part == part]
    assert [change.command for change in made if altered in change.command], made


def test_changes_that_a_correct_setup_might_pass_are_not_made() -> None:
    by_socket = altered_commands("curl --unix-socket /tmp/s http://localhost/ | grep -q H", TOKEN)
    assert not any("invalid" in change.command for change in by_socket)
    # A server that answers already would hide that another one does not start.
    served = altered_commands("npm start & sleep 9; curl -s http://localhost/ | grep -q H", TOKEN)
    assert not any("start-" in change.command for change in served)
    absent = altered_commands("! grep -q error /var/log/x && echo x", TOKEN)
    assert [change for change in absent if change.part == "answer"] == []


@pytest.mark.parametrize("data", SAMPLES)
def test_nearly_every_task_can_be_controlled(data: object) -> None:
    folder: Path = data("setupbench")  # type: ignore[operator]
    rows = [
        json.loads(line) for file in sorted(folder.glob("*.jsonl")) for line in file.read_text().splitlines() if line
    ]
    for row in rows:
        quirk = QUIRKS.get(row["instance_id"])
        command = quirk.strict_command if quirk and quirk.strict_command else row["success_command"]
        changes = altered_commands(command, TOKEN)
        assert changes or _UNKNOWN.search(command), command
        assert all(change.command != command for change in changes)
