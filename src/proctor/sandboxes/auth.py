"""Whether what runs in a sandbox can log in: what the AUTH column says."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from proctor.core.trees import read_regular_file
from proctor.sandboxes.credentials import TOKENS
from proctor.sandboxes.layout import ACCOUNT

_PROFILE: Final = ("claude-config", "default")
_KEYS: Final = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")


class AuthState(StrEnum):
    """What a sandbox's credentials are good for.

    VALID: there is a token, or a key in the environment. ACCOUNT_ONLY: an account is known and no token for it.
    EXPIRED: the token was refused, or ran out and cannot be renewed. LIMITED: the account's usage limit is reached.
    """

    VALID = "valid"
    ACCOUNT_ONLY = "account-only"
    EXPIRED = "expired"
    LIMITED = "limited"
    NONE = "none"


def auth_state(home: Path, *, environ: Mapping[str, str], now: datetime) -> AuthState:
    """Look at the files that Claude Code and h2 left in a sandbox; a broken one counts as absent."""
    if read_regular_file(home, *_PROFILE, "autherror.json") is not None:
        return AuthState.EXPIRED
    if _is_rate_limited(_json(home, "ratelimit.json"), now):
        return AuthState.LIMITED
    tokens = _object(_object(_json(home, TOKENS)).get("claudeAiOauth"))
    has_token = _has_text(tokens, "accessToken") or _has_text(tokens, "refreshToken")
    ran_out = not _has_text(tokens, "refreshToken") and _is_past(tokens.get("expiresAt"), now)
    if (has_token and not ran_out) or _has_key(environ) or _has_key_in_settings(_object(_json(home, "settings.json"))):
        return AuthState.VALID
    if has_token:
        return AuthState.EXPIRED
    account = _object(_object(_json(home, ACCOUNT)).get("oauthAccount"))
    if _has_text(account, "accountUuid") and _has_text(account, "emailAddress"):
        return AuthState.ACCOUNT_ONLY
    return AuthState.NONE


def _json(home: Path, name: str) -> object:
    data = read_regular_file(home, *_PROFILE, name)
    try:
        return json.loads(data) if data is not None else None
    except (ValueError, RecursionError):
        return None


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _has_text(record: dict[str, Any], key: str) -> bool:
    value = record.get(key)
    return isinstance(value, str) and bool(value)


def _is_past(milliseconds: object, now: datetime) -> bool:
    return isinstance(milliseconds, int | float) and milliseconds <= now.timestamp() * 1000


def _is_rate_limited(record: object, now: datetime) -> bool:
    if not isinstance(record, dict):
        return False
    text = record.get("resets_at")
    if text is None:
        return True
    try:
        resets_at = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return False  # h2, too, takes no notice of a file that it cannot read
    if resets_at.tzinfo is None:
        resets_at = resets_at.replace(tzinfo=UTC)
    # The zero time of Go stands for a limit without a known end.
    return resets_at.year == 1 or now < resets_at


def _has_key(environ: Mapping[str, Any]) -> bool:
    return any(isinstance(environ.get(key), str) and environ[key] for key in _KEYS)


def _has_key_in_settings(settings: dict[str, Any]) -> bool:
    return _has_text(settings, "apiKeyHelper") or _has_key(_object(settings.get("env")))
