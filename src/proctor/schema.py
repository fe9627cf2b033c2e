"""JSON Schemas of the records, generated from the types and shipped as files.

``python -m proctor.schema DIR`` writes them; a test fails when the shipped ones are stale.
"""

import inspect
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

from proctor.agents.h2 import Timeline
from proctor.analysis.score import ScoreSummary
from proctor.analysis.sweep import SweepOutcome
from proctor.benchmarks.harbor.artifacts import ArtifactManifest
from proctor.benchmarks.harbor.step_rule import HarborSteps
from proctor.benchmarks.harbor.verdict_rule import HarborEvidence
from proctor.benchmarks.registry import BenchmarkRow
from proctor.benchmarks.setupbench.verdict_rule import SetupBenchEvidence
from proctor.benchmarks.suites.format import SuiteEnvironmentFile
from proctor.benchmarks.suites.kinds import registered_kinds
from proctor.benchmarks.swe.parity import Parity
from proctor.core.benchmark import DatasetInfo, TaskHealth
from proctor.core.evaluation import EvaluationReport
from proctor.core.predictions import PredictionLine
from proctor.core.published_result import PublishedResult
from proctor.core.record import to_json
from proctor.core.result import TaskResult
from proctor.core.run import JournalEntry, RunConfig, RunSummary
from proctor.core.sweep import Sweep
from proctor.core.task import Task
from proctor.core.trajectory import Trajectory
from proctor.core.verdict import Verdict
from proctor.doctor import Diagnosis
from proctor.mining.report import MiningReport, SuiteSummary
from proctor.report.breakdown import BreakdownReport
from proctor.report.cli_records import (
    ExportedRun,
    FormatList,
    ImportedRun,
    RunDetails,
    RunnableList,
    RunPlan,
    SweepPlan,
    TaskList,
    ValidationReport,
)
from proctor.report.comparison import ComparisonReport
from proctor.report.pareto import ParetoReport
from proctor.report.run_list import RunList
from proctor.report.stored_runs import RunsReport
from proctor.runner.notify import Notification
from proctor.sandboxes.sandbox import SandboxRow

# A tuple of records: a file is one of them.
RECORDS: Final[dict[str, Any]] = {
    "task": Task,
    "verdict": Verdict,
    "task-result": TaskResult,
    "run-config": RunConfig,
    "run-summary": RunSummary,
    "journal-entry": JournalEntry,
    "sweep": Sweep,
    "report": EvaluationReport,
    "trajectory": Trajectory,
    "score": ScoreSummary,
    "task-health": TaskHealth,
    "timeline": Timeline,
    "dataset-info": DatasetInfo,
    "published": PublishedResult,
    "diagnosis": Diagnosis,
    "runs-report": RunsReport,
    "notification": Notification,
    "run-list": RunList,
    "comparison": ComparisonReport,
    "pareto": ParetoReport,
    "breakdown": BreakdownReport,
    "sweep-outcome": SweepOutcome,
    "parity": Parity,
    "benchmark-row": BenchmarkRow,
    "sandbox-row": SandboxRow,
    "task-list": TaskList,
    "runnable-list": RunnableList,
    "validation": ValidationReport,
    "run-plan": RunPlan,
    "sweep-plan": SweepPlan,
    "run-details": RunDetails,
    "format-list": FormatList,
    "exported-run": ExportedRun,
    "imported-run": ImportedRun,
    "setupbench-evidence": SetupBenchEvidence,
    "harbor-evidence": HarborEvidence,
    "harbor-steps": HarborSteps,
    "harbor-submission": ArtifactManifest,
    "suite": tuple(dict.fromkeys(kind.suite_type for kind in registered_kinds().values())),
    "instance": tuple(kind.file_type for kind in registered_kinds().values()),
    "suite-environment": SuiteEnvironmentFile,
    "suite-summary": SuiteSummary,
    "mining-report": MiningReport,
    "prediction": PredictionLine,
}


def json_schema(name: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of one record."""
    record = RECORDS[name]
    if isinstance(record, tuple):
        kinds, definitions = msgspec.json.schema_components(record, ref_template="#/$defs/{name}")
        schema = {"anyOf": list(kinds), "$defs": definitions}
    else:
        schema = msgspec.json.schema(record)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": name, **_tidy(schema)}


def _tidy(value: Any) -> Any:
    """Descriptions come from docstrings, whose indentation some versions of Python keep and others strip."""
    if isinstance(value, dict):
        return {
            key: inspect.cleandoc(item) if key == "description" and isinstance(item, str) else _tidy(item)
            for key, item in value.items()
        }
    return [_tidy(item) for item in value] if isinstance(value, list) else value


def write_schemas(directory: Path) -> None:
    """Write every schema as ``<name>.schema.json``."""
    for name in RECORDS:
        (directory / f"{name}.schema.json").write_bytes(to_json(json_schema(name)))


if __name__ == "__main__":
    write_schemas(Path(sys.argv[1]))
