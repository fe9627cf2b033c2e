"""How the agents of this stand-in behave; the package says what each field means."""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Step:
    after: float = 0.0
    hook: str | None = None
    payload: dict[str, Any] = field(default_factory=dict)
    run: str | None = None
    state: tuple[str, str] | None = None
    message: str = ""
    die: bool = False


@dataclass(frozen=True, kw_only=True)
class Scenario:
    ready_seconds: float | None = 0.05
    child: str | None = None
    grandchildren: int = 1
    ignore_term: bool = False
    fail: str | None = None
    hang: bool = False
    ignore_stop: bool = False
    stop_seconds: float = 0.05
    status_seconds: float = 0.0
    queue_seconds: float = 0.0
    swallow: bool = False
    claude: bool = False
    turn: tuple[Step, ...] = (Step(hook="UserPromptSubmit"), Step(after=0.05, hook="Stop"))


def scenario_for(agent: str) -> Scenario:
    source = Path(os.environ.get("H2_STANDIN") or Path(os.environ.get("H2_DIR", "."), "standin.json"))
    if not source.is_file():
        return Scenario()
    values: dict[str, Any] = json.loads(source.read_text(encoding="utf-8"))
    chosen = {key: value for key, value in values.items() if key != "agents"} | values.get("agents", {}).get(agent, {})
    if "turn" in chosen:
        chosen["turn"] = tuple(Step(**step) for step in chosen["turn"])
    return Scenario(**chosen)
