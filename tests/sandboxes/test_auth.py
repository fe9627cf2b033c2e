import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proctor.sandboxes import AuthState
from proctor.sandboxes.auth import auth_state

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
TOKEN = {"accessToken": "dummy", "refreshToken": "dummy", "expiresAt": 1}
ACCOUNT = {"accountUuid": "0000", "emailAddress": "dummy@example.org"}
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def state(tmp_path: Path, files: dict[str, Any], environ: dict[str, str] | None = None) -> AuthState:
    config = tmp_path / "claude-config" / "default"
    config.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (config / name).write_text(content if isinstance(content, str) else json.dumps(content))
    return auth_state(tmp_path, environ=environ or {}, now=NOW)


def milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, "none"),
        ({".claude.json": {"hasCompletedOnboarding": True}}, "none"),
        ({".claude.json": {"oauthAccount": {"accountUuid": "0000"}}}, "none"),
        ({".claude.json": {"oauthAccount": {"accountUuid": "", "emailAddress": "x"}}}, "none"),
        ({".claude.json": {"oauthAccount": 3}, ".credentials.json": {"claudeAiOauth": 3}}, "none"),
        ({".claude.json": {"oauthAccount": ACCOUNT}}, "account-only"),
        ({".claude.json": {"oauthAccount": ACCOUNT}, ".credentials.json": {"claudeAiOauth": TOKEN}}, "valid"),
        ({".credentials.json": {"claudeAiOauth": TOKEN}}, "valid"),
        ({".credentials.json": {"claudeAiOauth": {"accessToken": "dummy"}}}, "valid"),
        ({".credentials.json": {"claudeAiOauth": {"accessToken": ""}}}, "none"),
        ({".credentials.json": {"claudeAiOauth": {}}, ".claude.json": {"oauthAccount": ACCOUNT}}, "account-only"),
        ({"settings.json": {"env": {"ANTHROPIC_API_KEY": "dummy"}}}, "valid"),
        ({"settings.json": {"apiKeyHelper": "/bin/key"}}, "valid"),
        ({"autherror.json": {}, ".credentials.json": {"claudeAiOauth": TOKEN}}, "expired"),
        ({"autherror.json": "not JSON", ".credentials.json": {"claudeAiOauth": TOKEN}}, "expired"),
    ],
)
def test_the_login_state_is_read_from_the_files(tmp_path: Path, files: dict[str, Any], expected: str) -> None:
    assert state(tmp_path, files) == expected


@pytest.mark.parametrize(
    ("hours", "refresh", "expected"),
    [(1, "", "valid"), (-1, "", "expired"), (-1, "dummy", "valid"), (1, "dummy", "valid")],
)
def test_a_token_has_expired_when_it_ran_out_and_cannot_be_renewed(
    tmp_path: Path, hours: int, refresh: str, expected: str
) -> None:
    token = {"accessToken": "dummy", "refreshToken": refresh, "expiresAt": milliseconds(NOW + timedelta(hours=hours))}
    assert state(tmp_path, {".credentials.json": {"claudeAiOauth": token}}) == expected


@pytest.mark.parametrize(
    ("resets_at", "expected"),
    [
        ("2026-03-01T12:00:01Z", "limited"),
        ("2026-03-01T12:00:01.123456789+00:00", "limited"),
        ("2026-03-01T13:00:01+02:00", "valid"),
        ("2026-03-01T11:59:59Z", "valid"),
        ("0001-01-01T00:00:00Z", "limited"),
        (None, "limited"),
        ("soon", "valid"),
        (17, "valid"),
    ],
)
def test_a_limit_holds_until_it_resets_or_for_ever_if_nobody_knows(
    tmp_path: Path, resets_at: object, expected: str
) -> None:
    files = {"ratelimit.json": {"resets_at": resets_at}, ".credentials.json": {"claudeAiOauth": TOKEN}}
    assert state(tmp_path, files) == expected


@pytest.mark.parametrize("name", ["ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"])
def test_a_key_in_the_environment_counts(tmp_path: Path, name: str) -> None:
    assert state(tmp_path, {}, {name: "dummy"}) == "valid"
    assert state(tmp_path, {}, {name: ""}) == "none"


@pytest.mark.parametrize("broken", ["", "{", "[]", '"text"', "nul", "[" * 100_000, "\x00", "3"])
def test_broken_files_count_as_absent(tmp_path: Path, broken: str) -> None:
    names = [".claude.json", ".credentials.json", "ratelimit.json", "settings.json"]
    assert state(tmp_path, dict.fromkeys(names, broken)) == "none"


def test_a_symlink_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside.json"
    outside.write_text(json.dumps({"claudeAiOauth": TOKEN}))
    config = tmp_path / "claude-config" / "default"
    config.mkdir(parents=True)
    (config / ".credentials.json").symlink_to(outside)
    assert state(tmp_path, {}) == "none"


@pytest.mark.timeout(10)
def test_a_pipe_does_not_block(tmp_path: Path) -> None:
    config = tmp_path / "claude-config" / "default"
    config.mkdir(parents=True)
    os.mkfifo(config / ".claude.json")
    assert state(tmp_path, {}) == "none"


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(st.sampled_from([".claude.json", ".credentials.json", "ratelimit.json", "settings.json"]), JSON),
    JSON,
)
def test_no_content_breaks_it(tmp_path: Path, files: dict[str, Any], inner: Any) -> None:
    wrapped = {"claudeAiOauth": inner, "oauthAccount": inner, "resets_at": inner, "env": inner}
    assert state(tmp_path, {**files, ".credentials.json": wrapped, ".claude.json": wrapped}) in AuthState
    assert state(tmp_path, {"ratelimit.json": wrapped, "settings.json": wrapped}) in AuthState
