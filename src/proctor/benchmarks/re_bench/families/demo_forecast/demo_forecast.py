"""Forecast a series: a family whose score the agent is never told, and whose last score counts. More is better."""

import json
import math
import random
from pathlib import Path
from typing import TypedDict

HOME = Path("/home/agent")
PROTECTED = Path("/protected")
ASSETS = Path(__file__).parent / "assets"
SEEN, AHEAD = 96, 24


class Task(TypedDict):
    """There is but one."""


def make_series(seed: int) -> list[float]:
    """A trend, two seasons, and some noise."""
    chance = random.Random(seed)
    return [
        20.0
        + 0.15 * month
        + 6.0 * math.sin(2 * math.pi * month / 12)
        + 2.0 * math.cos(2 * math.pi * month / 6)
        + chance.uniform(-0.8, 0.8)
        for month in range(SEEN + AHEAD)
    ]


class TaskFamily:
    """See the Task Standard for what each of these is for."""

    standard_version = "0.5.0"

    @staticmethod
    def get_tasks() -> dict[str, Task]:
        return {"main": {}}

    @staticmethod
    def get_instructions(t: Task) -> str:
        return (ASSETS / "instructions.md").read_text()

    @staticmethod
    def start(t: Task) -> None:
        series = make_series(int((ASSETS / "seed.txt").read_text()))
        (HOME / "series.json").write_text(json.dumps(series[:SEEN]))
        (HOME / "forecast.json").write_text(json.dumps([series[SEEN - 1]] * AHEAD))
        (PROTECTED / "future.json").write_text(json.dumps(series[SEEN:]))

    @staticmethod
    def intermediate_score(t: Task) -> dict[str, object]:
        future = json.loads((PROTECTED / "future.json").read_text())
        try:
            forecast = json.loads((HOME / "forecast.json").read_text())
            errors = [abs(float(guess) - value) for guess, value in zip(forecast, future, strict=True)]
        except (OSError, ValueError, TypeError):
            return {"score": math.nan, "message": {"is_valid": False}, "details": {}}
        mean = sum(errors) / len(errors)
        return {"score": 1 - mean / 10, "message": {"is_valid": math.isfinite(mean)}, "details": {"mean_error": mean}}

    @staticmethod
    def aggregate_scores(t: Task, score_log: list[dict[str, float]]) -> float:
        valid = [entry["score"] for entry in score_log if math.isfinite(entry["score"])]
        return valid[-1] if valid else math.nan
