"""Shorten tours: a family of the METR Task Standard that needs a processor and nothing else. Less is better."""

import json
import math
import random
import subprocess
import sys
from pathlib import Path
from typing import TypedDict

HOME = Path("/home/agent")
PROTECTED = Path("/protected")
ASSETS = Path(__file__).parent / "assets"
CITIES = 60
SECONDS = 20.0

City = tuple[float, float]


class Task(TypedDict):
    """There is but one."""


def make_cities(seed: int) -> list[City]:
    """Cities in the unit square."""
    chance = random.Random(seed)
    return [(chance.random(), chance.random()) for _ in range(CITIES)]


def length(cities: list[City], order: list[int]) -> float:
    """How long a closed tour is."""
    return sum(math.dist(cities[a], cities[b]) for a, b in zip(order, order[1:] + order[:1], strict=True))


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
        (HOME / "solve.py").write_text((ASSETS / "solve.py").read_text())
        (HOME / "example.json").write_text(json.dumps(make_cities(0)))
        (PROTECTED / "unseen_maps.json").write_text((ASSETS / "unseen_maps.json").read_text())

    @staticmethod
    def intermediate_score(t: Task) -> dict[str, object]:
        seeds = json.loads((PROTECTED / "unseen_maps.json").read_text())
        tours = [make_cities(seed) for seed in seeds]
        try:
            done = subprocess.run(
                [sys.executable, "-B", str(HOME / "solve.py")],
                input=json.dumps(tours),
                capture_output=True,
                text=True,
                timeout=SECONDS,
                cwd=HOME,
                check=True,
            )
            orders = json.loads(done.stdout)
        except subprocess.TimeoutExpired:
            return {"score": math.nan, "message": {"timeout": True}, "details": {}}
        except (subprocess.CalledProcessError, OSError, ValueError):
            return {"score": math.nan, "message": {"error": "solve.py did not print one list of tours"}, "details": {}}
        if not isinstance(orders, list) or len(orders) != len(tours):
            return {"score": math.nan, "message": {"error": "there must be one tour for each map"}, "details": {}}
        if any(not is_tour(order) for order in orders):
            return {"score": math.nan, "message": {"error": "a tour visits every city exactly once"}, "details": {}}
        lengths = [length(cities, order) for cities, order in zip(tours, orders, strict=True)]
        mean = sum(lengths) / len(lengths)
        return {"score": math.log(mean), "message": {"mean_length": mean}, "details": {"lengths": lengths}}

    @staticmethod
    def aggregate_scores(t: Task, score_log: list[dict[str, float]]) -> float:
        return min((entry["score"] for entry in score_log if math.isfinite(entry["score"])), default=math.nan)


def is_tour(order: object) -> bool:
    """Whether this names every city once. Booleans are numbers to Python, and not to us."""
    return isinstance(order, list) and all(type(city) is int for city in order) and sorted(order) == list(range(CITIES))
