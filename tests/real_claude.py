"""Where the real Claude Code is."""

import importlib.util
from pathlib import Path

import pytest


def claude_program() -> str:
    """The program in the `claude-agent-sdk` wheel; the test is skipped where it is not installed."""
    found = importlib.util.find_spec("claude_agent_sdk")
    program = Path(found.origin).parent / "_bundled" / "claude" if found and found.origin else None
    if program is None or not program.is_file():
        pytest.skip("Claude Code is not installed: pip install claude-agent-sdk")
    return str(program)


# The ids of the newest generation, in the modes and with the questions of which Claude Code differs from older ones.
TODAYS_OPUS = "claude-opus-5-5"
TODAYS_SONNET = "claude-sonnet-5-5"
