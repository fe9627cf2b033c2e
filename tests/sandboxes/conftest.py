import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from proctor.sandboxes import Sandboxes
from proctor.sandboxes.staging import remove_socket_links
from proctor.sandboxes.stop import stop_everything

STANDINS = Path(__file__).parents[1] / "standins"
FOREIGN = ("ANTHROPIC_", "CLAUDE", "H2_", "OTEL_", "PROCTOR_")


@pytest.fixture(autouse=True)
def _clean_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home of its own, the stand-in h2 first on PATH, and nothing of who runs the tests."""
    for name in [name for name in os.environ if name.startswith(FOREIGN)]:
        monkeypatch.delenv(name)
    home = tmp_path / "user"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{STANDINS}:{Path(sys.executable).parent}:/usr/bin:/bin")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Sandboxes]:
    """A root of its own; whatever a test leaves running in it is ended."""
    sandboxes = Sandboxes(tmp_path / "sandboxes", wait_seconds=10)
    yield sandboxes
    if sandboxes.root.is_dir():
        for home in sandboxes.root.iterdir():
            if not home.is_symlink():
                stop_everything(home)
                remove_socket_links(home)


@pytest.fixture
def account(tmp_path: Path) -> Path:
    """A Claude Code configuration with credentials, all of them dummies."""
    folder = tmp_path / "account"
    folder.mkdir()
    (folder / ".claude.json").write_text(
        '{"oauthAccount": {"accountUuid": "0000", "emailAddress": "dummy@example.org"}, "numStartups": 3}'
    )
    (folder / ".credentials.json").write_text('{"claudeAiOauth": {"accessToken": "dummy", "refreshToken": "dummy"}}')
    return folder
