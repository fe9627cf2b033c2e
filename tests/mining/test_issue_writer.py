"""A model that writes instructions, and an agent that writes settings: both through the gateway, by a script."""

import base64
import json
from pathlib import Path

from mining_world import SETTINGS, calculator, mine
from proctor.mining.setup_file import written_settings
from suite_world import diff

ISSUE = "Sums are wrong\n\nAdding 2 and 3 gives -1, and not 5 as everybody who can add would expect it to be."
SCRIPT = f"default:\n  steps:\n    - {{text: {json.dumps(ISSUE)}, repeat: forever}}\n"


def test_a_model_writes_the_instruction_and_the_task_says_so(tmp_path: Path) -> None:
    calculator(tmp_path / "calc")
    (tmp_path / "model.yaml").write_text(SCRIPT)
    done = mine(
        tmp_path, tmp_path / "calc", "--write-issues", f"script:{tmp_path / 'model.yaml'}", "--until", "2026-03-04"
    )
    assert done.code == 0, done.stderr
    (folder,) = (tmp_path / "suite/instances").iterdir()
    assert (folder / "issue.md").read_text() == f"{ISSUE}\n"
    document = json.loads((folder / "instance.json").read_text())
    assert document["provenance"]["instruction"] == "model"
    assert "written-by-model" in document["tags"]


def test_an_agent_is_asked_for_the_settings_once_where_nothing_can_be_set_up(tmp_path: Path) -> None:
    repository = calculator(tmp_path / "calc")
    broken = "[setup]\ncommands = ['exit 1']\n[test]\nformat = 'unittest'\n"
    (tmp_path / "broken.toml").write_text(broken)
    encoded = base64.b64encode(SETTINGS.encode()).decode()
    command = f"sh -c 'echo {encoded} | base64 -d > proctor-mine.toml'"
    arguments = ("--settings", tmp_path / "broken.toml", "--until", "2026-03-04", "--setup-agent", "command")
    done = mine(tmp_path, repository.folder, *arguments, "--agent-command", command)
    assert done.code == 0, done.stderr
    assert "was asked for proctor-mine.toml" in done.stderr
    assert len(list((tmp_path / "suite/instances").iterdir())) == 1


def test_the_settings_are_read_from_what_was_changed() -> None:
    assert (
        written_settings(diff("proctor-mine.toml", "", "[test]\nscope = 'all'\n").encode()) == "[test]\nscope = 'all'\n"
    )
    assert written_settings(diff("other.toml", "", "x = 1\n").encode()) is None
    assert written_settings(b"") is None
