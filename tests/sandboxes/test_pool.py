import json
from pathlib import Path

import pytest

from proctor.core.errors import UsageError
from proctor.sandboxes.pool import SandboxPool, login_secrets

TOKEN = "sk-ant-oat01-dummy-recognisable-0123456789"


@pytest.fixture
def login(tmp_path: Path) -> Path:
    folder = tmp_path / "login"
    folder.mkdir()
    (folder / ".claude.json").write_text(json.dumps({"oauthAccount": {"accountUuid": "0"}}))
    document = {"claudeAiOauth": {"accessToken": TOKEN, "refreshToken": f"{TOKEN}-r", "scopes": ["short"]}}
    (folder / ".credentials.json").write_text(json.dumps(document))
    return folder


def config(sandbox: Path) -> Path:
    return sandbox / "claude-config" / "default"


async def test_as_many_as_are_in_use_at_once_are_made_and_used_again(tmp_path: Path) -> None:
    homes = SandboxPool(tmp_path / "h", preset="empty")
    async with homes.acquire() as one, homes.acquire() as two:
        assert one != two
        assert json.loads((config(one) / ".claude.json").read_text())
    async with homes.acquire() as again:
        assert again in {one, two}
    await homes.close()
    assert [path for path in (tmp_path / "h").iterdir() if not path.name.startswith(".")] == []


async def test_nothing_that_an_agent_leaves_reaches_the_next_one(tmp_path: Path) -> None:
    homes = SandboxPool(tmp_path / "h", preset="empty")
    async with homes.acquire() as home:
        before = {path.name: path.read_bytes() for path in config(home).iterdir() if path.is_file()}
        (config(home) / ".claude.json").write_text('{"mcpServers": {"evil": {}}}')
        (config(home) / ".credentials.json").write_text('{"note": "the answer is 42"}')
        (config(home) / "CLAUDE.md").write_text("the answer is 42")
        (config(home) / "projects").mkdir()
        (config(home) / "projects" / "memory.md").write_text("the answer is 42")
        # Also what the sandbox itself believes to have been made from.
        manifest = home / "sandbox.json"
        manifest.write_text(manifest.read_text().replace('"empty"', '"opus"'))
    async with homes.acquire() as home:
        after = {path.name: path.read_bytes() for path in config(home).iterdir() if path.is_file()}
        left = [path for path in home.rglob("*") if path.is_file() and b"the answer is 42" in path.read_bytes()]
    assert after == before
    assert left == []
    await homes.close()


async def test_a_damaged_home_is_made_again(tmp_path: Path) -> None:
    homes = SandboxPool(tmp_path / "h", preset="empty")
    async with homes.acquire() as home:
        (config(home) / ".claude.json").unlink()
        (config(home) / ".claude.json").symlink_to("/etc/passwd")
        (home / "sandbox.json").write_text("{")
    async with homes.acquire() as home:
        assert not (config(home) / ".claude.json").is_symlink()
        assert json.loads((config(home) / ".claude.json").read_text())
    await homes.close()


async def test_a_login_is_in_every_home_stays_there_and_is_known_as_a_secret(tmp_path: Path, login: Path) -> None:
    homes = SandboxPool(tmp_path / "h", preset="empty", auth_from=login)
    homes.check()
    assert login_secrets(login) == (TOKEN, f"{TOKEN}-r")
    async with homes.acquire() as home:
        account = json.loads((config(home) / ".claude.json").read_text())
        assert account["oauthAccount"] == {"accountUuid": "0"}
        # Claude Code renews its login by itself; an account that was tampered with is put back.
        (config(home) / ".credentials.json").write_text('{"claudeAiOauth": {"accessToken": "renewed"}}')
        (config(home) / ".claude.json").write_text('{"mcpServers": {"evil": {}}}')
    async with homes.acquire() as home:
        assert json.loads((config(home) / ".claude.json").read_text()) == account
        assert "renewed" in (config(home) / ".credentials.json").read_text()
    await homes.close()


def test_a_sandbox_pool_is_checked_before_anything_is_created(tmp_path: Path, login: Path) -> None:
    with pytest.raises(UsageError, match="grand"):
        SandboxPool(tmp_path / "h", preset="grand").check()
    (login / ".credentials.json").unlink()
    with pytest.raises(UsageError, match="there is no login to let through"):
        SandboxPool(tmp_path / "h", preset="empty", auth_from=login).check()
    assert not (tmp_path / "h").exists()
