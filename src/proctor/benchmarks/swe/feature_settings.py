"""What a row of FeatureBench says about running its tests, with the defaults of the official evaluation."""

import shlex
from typing import Any, Final

from proctor.benchmarks.swe.rows import FeatureBenchRow

DEFAULT_COMMAND: Final = "pytest -rA -p no:cacheprovider --color=no"
DEFAULT_RUN_SECONDS: Final = 600.0
DEFAULT_TEST_SECONDS: Final = 10
# A row can switch its limit off, and a test run without any would keep its place for good.
NO_LIMIT_SECONDS: Final = 1800.0
# The official evaluation has a command of its own for these, whatever the row says.
_COMMAND_OVERRIDES: Final = {"pydantic/pydantic": "pytest -rA -v --color=no"}
_PROXIES: Final = frozenset({"http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"})


def pytest_command(row: FeatureBenchRow) -> str:
    """The command that a test file is appended to."""
    command = _COMMAND_OVERRIDES.get(row.repo) or str(row.settings.get("test_cmd") or DEFAULT_COMMAND)
    seconds = row.settings.get("timeout_one", DEFAULT_TEST_SECONDS)
    if seconds is not None and seconds > 0:
        command = f"{command} --timeout={seconds}"
    words = command.split(maxsplit=2)
    return f"uv run {command}" if row.settings.get("use_uv") and words[:2] != ["uv", "run"] else command


def run_seconds(row: FeatureBenchRow) -> float:
    """How long the tests of one file may run."""
    seconds = row.settings.get("timeout_run", DEFAULT_RUN_SECONDS)
    return float(seconds) if seconds is not None and seconds > 0 else NO_LIMIT_SECONDS


def container_variables(row: FeatureBenchRow) -> dict[str, str]:
    """The variables that the official container is started with (`-e NAME=VALUE`)."""
    return {name.strip(): value for name, value in _arguments(row, "-e ")}


def bashrc_script(row: FeatureBenchRow) -> str:
    """Shell lines that append the row's exports (`-ee NAME=VALUE`) to `~/.bashrc`, where the official ones are."""
    exports = [f"export {name}={value}" for name, value in _arguments(row, "-ee ")]
    return f"printf '%s\\n' {shlex.join(exports)} >> ~/.bashrc\n" if exports else ""


def _arguments(row: FeatureBenchRow, option: str) -> list[tuple[str, str]]:
    """What follows an option in the row's arguments for Docker; the official evaluation takes no proxies from there."""
    arguments: Any = _section(row.settings, "docker_specs").get("custom_docker_args")
    texts = arguments if isinstance(arguments, list) else []
    pairs = [
        (name, value)
        for text in texts
        if isinstance(text, str) and text.startswith(option)
        for name, equals, value in [text.removeprefix(option).partition("=")]
        if equals
    ]
    return [(name, value) for name, value in pairs if name.strip() not in _PROXIES]


def gpus(row: FeatureBenchRow) -> int:
    """How many GPUs the row asks for."""
    arguments = _section(_section(row.settings, "docker_specs"), "run_args")
    pool = arguments.get("cuda_visible_num", arguments.get("cuda_visible_devices"))
    if not pool or (isinstance(pool, int) and pool < 0):
        return 0
    number = arguments.get("number_once")
    return number if isinstance(number, int) and number > 0 else 1


def _section(settings: dict[str, Any], name: str) -> dict[str, Any]:
    found = settings.get(name)
    return found if isinstance(found, dict) else {}
