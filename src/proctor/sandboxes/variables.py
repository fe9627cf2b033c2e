"""The environment variables of what runs in a sandbox."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from proctor.sandboxes.first_run_dialogs import VARIABLES
from proctor.sandboxes.layout import config_directory, h2_root

SANDBOX_VARIABLE: Final = "PROCTOR_SANDBOX"

# What an outer h2, Claude Code or telemetry set-up leaves behind would make agents report to it, or pose as it.
_DROPPED: Final = frozenset({"CLAUDECODE", "H2_ACTOR", "H2_COLORFGBG", "H2_COLORTERM", "H2_POD", "H2_ROLE", "H2_TERM"})
_DROPPED_PREFIXES: Final = (
    "CLAUDE_CODE_",
    "H2_AGENT_",
    "H2_EVENT_",
    "H2_OSC_",
    "H2_SCHEDULE_",
    "H2_SESSION_",
    "H2_TRIGGER_",
    "OTEL_",
)
# Of Claude Code's own, those that say how to reach the model are the user's wish, not an outer session's trace.
_KEPT: Final = frozenset(
    {
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "CLAUDE_CODE_SKIP_BEDROCK_AUTH",
        "CLAUDE_CODE_SKIP_FOUNDRY_AUTH",
        "CLAUDE_CODE_SKIP_VERTEX_AUTH",
        "CLAUDE_CODE_USE_BEDROCK",
        "CLAUDE_CODE_USE_FOUNDRY",
        "CLAUDE_CODE_USE_VERTEX",
    }
)
_LOOPBACK: Final = ("127.0.0.1", "localhost")


def sandbox_variables(home: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """What `environ` becomes for a command in the sandbox at `home`."""
    variables = {key: value for key, value in environ.items() if not _is_dropped(key)}
    no_proxy = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    # Agents report to h2 on the loopback; a proxy would swallow that. Programs disagree on which spelling they read.
    hosts = ",".join(dict.fromkeys([*(host for host in no_proxy.split(",") if host), *_LOOPBACK]))
    return {
        **variables,
        **VARIABLES,
        "H2_DIR": str(home),
        "H2_ROOT_DIR": str(h2_root(home)),
        "CLAUDE_CONFIG_DIR": str(config_directory(home)),
        "NO_PROXY": hosts,
        "no_proxy": hosts,
        SANDBOX_VARIABLE: home.name,
    }


def _is_dropped(key: str) -> bool:
    return key in _DROPPED or (key.startswith(_DROPPED_PREFIXES) and key not in _KEPT)
