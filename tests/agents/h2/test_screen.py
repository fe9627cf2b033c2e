"""The text of a terminal is read from what is painted on it, and dialogs are told from everything else."""

import pytest

from proctor.agents.h2.screen import find_dialog, lines_of, read_screen
from terminal_session import SAMPLES, recorded_output

# Recorded sessions of the real Claude Code, and what each dialog asks.
DIALOGS = {
    "api-key": "Do you want to use this API key?",
    "auto-mode-check": "Auto mode can't check actions in this session",
    "auto-mode-offer": "Make auto mode your default permission mode?",
    "bypass-mode": "Claude Code running in Bypass Permissions mode",
    "imports": "Allow external CLAUDE.md file imports?",
    "mcp-server": "New MCP server found in this project",
    "permission": "Do you want to proceed?",
    "question": "Which colour?",
    "trust": "Is this a project you created or one you trust?",
    "write": "Do you want to create new.txt?",
}
# A prompt that waits, an answer that looks like a dialog, a command that takes its time.
OTHERS = ("prompt", "answer", "command")
H2_BARS = " Normal | Active (tool use: Bash) | /workspace | concierge [default]  concierge\nnormal >"


def test_a_screen_is_read_as_a_person_would() -> None:
    painted = (
        b"\x1b[2J\x1b[1;1H\x1b[1mDo you\x1b[0m trust\x1b[2C\x1b[31mthis\x1b[0m folder?"
        b"\x1b[2;1H 1. Yes\x1b[K\r\n\x1b[3;1H 2. No"
    )
    assert lines_of(read_screen(painted)) == ["Do you trust this folder?", "1. Yes", "2. No"]
    assert lines_of(read_screen(b"")) == []


def test_every_recording_is_of_one_kind_or_the_other() -> None:
    assert {path.stem for path in SAMPLES.glob("*.cast")} == {*DIALOGS, *OTHERS}


@pytest.mark.parametrize(("name", "question"), DIALOGS.items(), ids=DIALOGS.keys())
def test_a_dialog_of_claude_code_is_recognised(name: str, question: str) -> None:
    screen = read_screen(recorded_output(name))
    for seen in (screen, f"{screen}\n{H2_BARS}"):
        dialog = find_dialog(seen)
        assert dialog is not None, screen
        assert question in dialog
        assert "normal >" not in dialog
        assert "Claude Code v" not in dialog, "only what stands below the line"


@pytest.mark.parametrize("name", OTHERS)
def test_other_screens_are_not_dialogs(name: str) -> None:
    screen = read_screen(recorded_output(name))
    assert "bypass permissions on" in screen
    assert find_dialog(screen) is None
    assert find_dialog(f"{screen}\n{H2_BARS}") is None


@pytest.mark.parametrize("screen", ["", "Do you trust this folder?", "claude: not found\nexit 1\n\n\n", "─" * 80])
def test_output_of_another_program_is_not_a_dialog(screen: str) -> None:
    assert find_dialog(screen) is None
