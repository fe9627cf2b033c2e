"""Claude Code asks nothing in a sandbox: the answers are there, and the real program comes up on a terminal."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from proctor.agents.h2.screen import find_dialog, screen_of
from proctor.sandboxes import Sandboxes
from proctor.sandboxes.first_run_dialogs import answer_settings, approve_key
from real_claude import TODAYS_OPUS, TODAYS_SONNET, claude_program
from terminal_session import on_terminal
from waiting import PATIENCE, until

KEY = "sk-dummy-0123456789-0123456789"
OTHER_KEY = "sk-dummy-abcdefghij-abcdefghij"
ACCOUNT = "claude-config/default/.claude.json"
SETTINGS = "claude-config/default/settings.json"
POD = ("concierge", "coder-1", "coder-2", "reviewer")


def approved(home: Path) -> list[str]:
    found: list[str] = json.loads((home / ACCOUNT).read_text()).get("customApiKeyResponses", {}).get("approved", [])
    return found


def test_settings_answer_what_they_leave_open_and_keep_what_they_say() -> None:
    assert json.loads(answer_settings(b'{"model": "opus"}')) == {
        "model": "opus",
        "skipDangerousModePermissionPrompt": True,
        "enableAllProjectMcpServers": True,
        "disableAutoMode": "disable",
    }
    said = b'{"skipDangerousModePermissionPrompt":false,"enableAllProjectMcpServers":false,"disableAutoMode":""}'
    assert answer_settings(said) == said
    auto = json.loads(answer_settings(b'{"permissions": {"defaultMode": "auto"}}'))
    assert "disableAutoMode" not in auto


def test_a_preset_with_settings_of_its_own_is_not_asked_either(store: Sandboxes, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    settings = mine / SETTINGS
    settings.parent.mkdir(parents=True)
    (mine / "preset.toml").write_text('extends = "opus"\n')
    settings.write_text('{"hooks": {}}')
    box = store.create("b1", preset=mine)
    store.reset("b1")
    assert json.loads((box.home / SETTINGS).read_text())["skipDangerousModePermissionPrompt"] is True


@pytest.mark.parametrize("responses", [{}, {"customApiKeyResponses": 3}, {"customApiKeyResponses": {"approved": None}}])
def test_a_key_is_approved_by_its_end_and_once(responses: dict[str, object]) -> None:
    account = {"theme": "dark", **responses}
    assert approve_key(account, f" {KEY}\n")
    assert not approve_key(account, KEY)
    assert account == {"theme": "dark", "customApiKeyResponses": {"approved": [KEY[-20:]]}}


def test_the_keys_that_a_command_finds_are_approved_before_it_runs(
    store: Sandboxes, account: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = store.create("b1", auth_from=account)
    before = (box.home / ACCOUNT).read_bytes()
    box.run(["true"])
    assert (box.home / ACCOUNT).read_bytes() == before, "without a key there is nothing to approve"
    settings = json.loads((box.home / SETTINGS).read_text())
    (box.home / SETTINGS).write_text(json.dumps({**settings, "env": {"ANTHROPIC_API_KEY": OTHER_KEY}}))
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    box.run(["true"])
    assert approved(box.home) == [KEY[-20:], OTHER_KEY[-20:]]
    kept = json.loads((box.home / ACCOUNT).read_text())
    assert {key: kept[key] for key in json.loads(before)} == json.loads(before)
    assert (box.home / ACCOUNT).stat().st_mode & 0o777 == 0o600
    store.reset("b1")
    assert approved(box.home) == [KEY[-20:], OTHER_KEY[-20:]]


@pytest.mark.parametrize("broken", [b"{", b"[]", None], ids=["damaged", "a list", "a symlink"])
def test_an_account_that_cannot_be_changed_is_left_alone(
    store: Sandboxes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: bytes | None
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    box = store.create("b1")
    path = box.home / ACCOUNT
    path.unlink()
    if broken is None:
        (tmp_path / "elsewhere.json").write_text("{}")
        path.symlink_to(tmp_path / "elsewhere.json")
    else:
        path.write_bytes(broken)
    assert box.run(["true"]).returncode == 0
    assert path.is_symlink() if broken is None else path.read_bytes() == broken


def test_an_account_that_is_gone_is_made(store: Sandboxes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    box = store.create("b1")
    (box.home / ACCOUNT).unlink()
    box.run(["true"])
    assert approved(box.home) == [KEY[-20:]]


def test_imports_are_declined_where_a_command_may_start_agents(
    store: Sandboxes, checkout: Path, tmp_path: Path
) -> None:
    inner, tree, plain = checkout / "inner", tmp_path / "tree", tmp_path / "plain"
    inner.mkdir()
    plain.mkdir()
    commit = ["-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "--quiet", "--allow-empty", "-m", "x"]
    subprocess.run(["git", "-C", checkout, *commit], check=True)
    subprocess.run(["git", "-C", checkout, "worktree", "add", "--quiet", "--detach", tree], check=True)
    box = store.create("b1")
    before = (box.home / ACCOUNT).read_bytes()
    box.run(["true", f"--var={plain}", "/nowhere"], cwd=plain)
    assert (box.home / ACCOUNT).read_bytes() == before, "nothing there imports anything"

    def declined() -> set[str]:
        projects = json.loads((box.home / ACCOUNT).read_text())["projects"]
        return {name for name, said in projects.items() if said.get("hasClaudeMdExternalIncludesWarningShown")}

    box.run(["true", "--var", f"working_dir={inner}"], cwd=plain)
    assert declined() == {str(inner), str(checkout)}
    (tree / "CLAUDE.md").write_text("See @../notes.md\n")
    box.run(["true"], cwd=tree)
    assert declined() == {str(inner), str(checkout), str(tree)}


def test_a_command_runs_in_a_folder_that_was_removed_too(
    store: Sandboxes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert store.create("b1").run(["true"]).returncode == 0


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A git work tree about which Claude Code would ask more than one question."""
    folder = tmp_path / "a checkout"
    folder.mkdir()
    subprocess.run(["git", "init", "--quiet", folder], check=True)
    (tmp_path / "notes.md").write_text("Be brief.\n")
    (folder / "CLAUDE.md").write_text("See @../notes.md\n")
    (folder / ".mcp.json").write_text('{"mcpServers": {"cat": {"command": "cat"}}}')
    return folder


@pytest.fixture
def evidence(pytestconfig: pytest.Config) -> Path:
    """Where recorded terminal sessions stay after the tests: ``.pytest_cache/…/d/terminal-sessions``."""
    assert pytestconfig.cache is not None
    return pytestconfig.cache.mkdir("terminal-sessions")


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The real Claude Code first on PATH, a key that it would ask about, and nothing that it could reach."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "claude").symlink_to(claude_program())
    (tmp_path / "standin.json").write_text('{"claude": true}')
    given = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "TERM": "xterm-256color",
        "ANTHROPIC_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "PROCTOR_SANDBOXES": str(tmp_path / "sandboxes"),
        "H2_STANDIN": str(tmp_path / "standin.json"),
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    return dict(os.environ)


# What to start in each preset, and the permission mode in which it comes up.
STARTS = {
    "empty": (("--model", TODAYS_SONNET, "--permission-mode", "bypassPermissions"), "bypass permissions on"),
    "hooks": (("--model", TODAYS_OPUS), "manual mode on"),
    "haiku": (("--model", TODAYS_SONNET), "bypass permissions on"),
    "opus": (("--model", TODAYS_OPUS), "bypass permissions on"),
}


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["empty", "hooks", "opus", pytest.param("haiku", marks=pytest.mark.long)])
def test_every_preset_brings_claude_code_up_without_a_question_also_after_a_reset(
    store: Sandboxes, checkout: Path, environ: dict[str, str], evidence: Path, preset: str
) -> None:
    arguments, mode = STARTS[preset]
    store.create("b1", preset=preset)
    command = [sys.executable, "-m", "proctor", "sandbox", "exec", "b1", "--", "claude", *arguments]
    # A pod of the preset opus is what is started after its reset, below.
    for state in ("new",) if preset == "opus" else ("new", "reset"):
        recording = evidence / f"{preset}-{state}.cast"
        with on_terminal(command, cwd=checkout, environ=environ, recording=recording) as session:
            screen = session.until(lambda shown: "❯" in shown, "a prompt")  # noqa: RUF001 - as it is shown
        assert find_dialog(screen) is None, screen
        assert mode in screen
        assert "Not logged in" not in screen
        store.reset("b1")
    if preset == "opus":
        launch_and_look(store, checkout, evidence)


def launch_and_look(store: Sandboxes, checkout: Path, evidence: Path) -> None:
    """The documented command brings up four agents, which are idle and show a prompt."""
    box = store.get("b1")
    launch = ["h2", "pod", "launch", "benchmark", "--detach", "--var", f"working_dir={checkout}"]
    command = [sys.executable, "-m", "proctor", "sandbox", "exec", "b1", "--", *launch]
    subprocess.run(command, cwd=checkout.parent, check=True, capture_output=True)

    def idle() -> int:
        states = [json.loads(box.run(["h2", "status", name]).stdout)["state"] for name in POD]
        return states.count("idle")

    try:
        until(lambda: idle() == len(POD), "four idle agents", seconds=2 * PATIENCE, pause=0.3)
    finally:
        screens = {name: screen_of(box.home, name) for name in POD}
        for name, screen in screens.items():
            (evidence / f"opus-pod-{name}.txt").write_text(screen + "\n", encoding="utf-8")
    for screen in screens.values():
        assert find_dialog(screen) is None, screen
        assert "bypass permissions on" in screen
    for name in POD:
        metadata = json.loads((box.home / "sessions" / name / "session.metadata.json").read_text())
        assert (metadata["cwd"], metadata["claude_permission_mode"]) == (str(checkout), "bypassPermissions")
