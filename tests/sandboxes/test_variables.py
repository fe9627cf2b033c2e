from pathlib import Path

import pytest

from proctor.sandboxes.first_run_dialogs import VARIABLES
from proctor.sandboxes.variables import sandbox_variables

HOME = Path("/boxes/b1")


def test_the_variables_of_a_sandbox() -> None:
    assert sandbox_variables(HOME, {}) == {
        "H2_DIR": "/boxes/b1",
        "H2_ROOT_DIR": "/boxes/b1/h2-root",
        "CLAUDE_CONFIG_DIR": "/boxes/b1/claude-config/default",
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
        "PROCTOR_SANDBOX": "b1",
        **VARIABLES,
    }


@pytest.mark.parametrize(
    "name",
    [
        *("H2_POD", "H2_ACTOR", "H2_ROLE", "H2_SESSION_DIR", "H2_OSC_FG", "H2_TERM", "OTEL_EXPORTER_OTLP_ENDPOINT"),
        *("OTEL_ANYTHING", "CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT", "CLAUDE_CODE_ANYTHING"),
    ],
)
def test_variables_of_an_outer_session_are_unset(name: str) -> None:
    assert name not in sandbox_variables(HOME, {name: "outer"})


@pytest.mark.parametrize("name", ["H2_DIR", "H2_ROOT_DIR", "CLAUDE_CONFIG_DIR", "PROCTOR_SANDBOX"])
def test_variables_of_an_outer_sandbox_are_ignored(name: str) -> None:
    assert sandbox_variables(HOME, {name: "/outer"}) == sandbox_variables(HOME, {})


@pytest.mark.parametrize(
    "name",
    ["PATH", "TMPDIR", "ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_USE_BEDROCK", "H2_DEBUG_KEYS"],
)
def test_user_variables_for_programs_are_passed_on(name: str) -> None:
    assert sandbox_variables(HOME, {name: "kept"})[name] == "kept"


def test_hosts_without_a_proxy_stay_so() -> None:
    variables = sandbox_variables(HOME, {"no_proxy": "corp.example,localhost"})
    assert variables["NO_PROXY"] == variables["no_proxy"] == "corp.example,localhost,127.0.0.1"
