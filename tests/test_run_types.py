"""Few types carry a run from `run_session` to its records: what a reader must know to follow one."""

import ast
from pathlib import Path

from paths import REPOSITORY

RUNNER = REPOSITORY / "src/proctor/runner"
MOST_TYPES = 10
# Modules whose types a run does without, or is the same without.
BESIDE = {
    "evaluation.py": "grading predictions, without an agent",
    "health_lookup.py": "what reports look up",
    "models.py": "what --model means, before a run is planned",
    "notify.py": "what --notify calls in the end",
    "observer.py": "what displays are told",
    "redacted_environment.py": "an `Environment` like any other",
    "sweep_file.py": "the reader of a sweep's file",
}


def defined_types(module: Path) -> list[str]:
    return [node.name for node in ast.walk(ast.parse(module.read_text())) if isinstance(node, ast.ClassDef)]


def test_a_run_is_carried_by_few_types() -> None:
    one_machine = [RUNNER / "executors" / name for name in ("base.py", "local.py")]
    modules = [*RUNNER.glob("*.py"), *one_machine]
    assert BESIDE.keys() <= {module.name for module in modules if defined_types(module)}
    found = [name for module in modules if module.name not in BESIDE for name in defined_types(module)]
    assert len(found) <= MOST_TYPES, sorted(found)
    # What they are: from the session through its trials and attempts to what they are made with.
    assert set(found) >= {"Session", "RunSession", "TrialRunner", "AttemptRunner", "RunResources", "Executor"}
