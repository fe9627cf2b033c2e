"""Proctor runs standard coding benchmarks against coding agents and says honestly which configuration is better.

Here is what a program needs: `run`, `resume`, `sweep`, `evaluate`, `validate` and `load_results`, with the records that
they take and give (docs/python.md); and what a plugin needs: the base classes `Benchmark`, `PatchBenchmark`, `Agent`
and `EnvironmentProvider`, with their records, and the functions that lay out, apply and test (docs/plugins.md). Each
name is imported when it is first used, so `import proctor` costs next to nothing.
"""

from proctor.core import VERSION

__version__ = VERSION

TYPE_CHECKING = False  # as type checkers know it; importing `typing` would take longer than all of this
if TYPE_CHECKING:
    from proctor.api import (
        CommonOptions,
        EvaluateOptions,
        ResumeOptions,
        RunOptions,
        RunResults,
        SweepOptions,
        SweepResults,
        evaluate,
        evaluate_async,
        load_results,
        resume,
        resume_async,
        resume_sweep,
        resume_sweep_async,
        run,
        run_async,
        sweep,
        sweep_async,
        validate,
        validate_async,
    )
    from proctor.benchmarks.patch_benchmark import PatchBenchmark
    from proctor.core.agent import Agent, AgentOutcome, AgentRequest, AgentSetup
    from proctor.core.benchmark import (
        AttemptLogs,
        Benchmark,
        BenchmarkSource,
        DatasetInfo,
        GradeOptions,
        GradingContext,
        InvalidTask,
        TaskHealth,
    )
    from proctor.core.causes import Cause, Status
    from proctor.core.delegating_provider import DelegatingProvider
    from proctor.core.environment import (
        Environment,
        EnvironmentProvider,
        EnvironmentRequirement,
        EnvironmentSpec,
        ExecResult,
        Limits,
        Mount,
        Network,
        required_program,
    )
    from proctor.core.errors import (
        InfrastructureError,
        InvalidData,
        LimitReached,
        ProctorError,
        RetryableError,
        UsageError,
    )
    from proctor.core.evaluation import EvaluationReport, Prediction, TaskEvaluation
    from proctor.core.machine import Machine
    from proctor.core.published_result import PublishedResult
    from proctor.core.result import AgentMetrics, TaskResult
    from proctor.core.run import RunConfig, RunSummary
    from proctor.core.submission import PatchKind
    from proctor.core.task import (
        DirectorySource,
        ImageSource,
        Oracle,
        PrivatePart,
        PublicPart,
        RepositorySource,
        SubmissionKind,
        Task,
    )
    from proctor.core.trajectory import LogMeasure, Trajectory
    from proctor.core.verdict import Finding, TestStatus, Verdict
    from proctor.environments import provider
    from proctor.grading import Expectation, TestFormat, TestPlan, TestRun, audit_change, resolve, run_tests
    from proctor.workspaces import BaseTree, InvalidSubmission, apply_patch, base_of, check_out, make_submission

__all__ = [
    "Agent",
    "AgentMetrics",
    "AgentOutcome",
    "AgentRequest",
    "AgentSetup",
    "AttemptLogs",
    "BaseTree",
    "Benchmark",
    "BenchmarkSource",
    "Cause",
    "CommonOptions",
    "DatasetInfo",
    "DelegatingProvider",
    "DirectorySource",
    "Environment",
    "EnvironmentProvider",
    "EnvironmentRequirement",
    "EnvironmentSpec",
    "EvaluateOptions",
    "EvaluationReport",
    "ExecResult",
    "Expectation",
    "Finding",
    "GradeOptions",
    "GradingContext",
    "ImageSource",
    "InfrastructureError",
    "InvalidData",
    "InvalidSubmission",
    "InvalidTask",
    "LimitReached",
    "Limits",
    "LogMeasure",
    "Machine",
    "Mount",
    "Network",
    "Oracle",
    "PatchBenchmark",
    "PatchKind",
    "Prediction",
    "PrivatePart",
    "ProctorError",
    "PublicPart",
    "PublishedResult",
    "RepositorySource",
    "ResumeOptions",
    "RetryableError",
    "RunConfig",
    "RunOptions",
    "RunResults",
    "RunSummary",
    "Status",
    "SubmissionKind",
    "SweepOptions",
    "SweepResults",
    "Task",
    "TaskEvaluation",
    "TaskHealth",
    "TaskResult",
    "TestFormat",
    "TestPlan",
    "TestRun",
    "TestStatus",
    "Trajectory",
    "UsageError",
    "Verdict",
    "apply_patch",
    "audit_change",
    "base_of",
    "check_out",
    "evaluate",
    "evaluate_async",
    "load_results",
    "make_submission",
    "provider",
    "required_program",
    "resolve",
    "resume",
    "resume_async",
    "resume_sweep",
    "resume_sweep_async",
    "run",
    "run_async",
    "run_tests",
    "sweep",
    "sweep_async",
    "validate",
    "validate_async",
]

_MODULES = {
    "proctor.api": (
        "CommonOptions EvaluateOptions ResumeOptions RunOptions RunResults SweepOptions SweepResults evaluate "
        "evaluate_async load_results resume resume_async resume_sweep resume_sweep_async "
        "run run_async sweep sweep_async validate validate_async"
    ),
    "proctor.benchmarks.patch_benchmark": "PatchBenchmark",
    "proctor.core.agent": "Agent AgentOutcome AgentRequest AgentSetup",
    "proctor.core.benchmark": (
        "AttemptLogs Benchmark BenchmarkSource DatasetInfo GradeOptions GradingContext InvalidTask TaskHealth"
    ),
    "proctor.core.causes": "Cause Status",
    "proctor.core.delegating_provider": "DelegatingProvider",
    "proctor.core.environment": (
        "Environment EnvironmentProvider EnvironmentRequirement EnvironmentSpec ExecResult Limits "
        "Mount Network required_program"
    ),
    "proctor.core.errors": "InfrastructureError InvalidData LimitReached ProctorError RetryableError UsageError",
    "proctor.core.evaluation": "EvaluationReport Prediction TaskEvaluation",
    "proctor.core.published_result": "PublishedResult",
    "proctor.core.result": "AgentMetrics TaskResult",
    "proctor.core.machine": "Machine",
    "proctor.core.run": "RunConfig RunSummary",
    "proctor.core.submission": "PatchKind",
    "proctor.core.task": (
        "DirectorySource ImageSource Oracle PrivatePart PublicPart RepositorySource SubmissionKind Task"
    ),
    "proctor.core.trajectory": "LogMeasure Trajectory",
    "proctor.core.verdict": "Finding TestStatus Verdict",
    "proctor.environments": "provider",
    "proctor.grading": "Expectation TestFormat TestPlan TestRun audit_change resolve run_tests",
    "proctor.workspaces": "BaseTree InvalidSubmission apply_patch base_of check_out make_submission",
}


if not TYPE_CHECKING:  # a type checker would take every name for exported

    def __getattr__(name: str) -> object:
        for module, names in _MODULES.items():
            if name in names.split():
                import importlib

                value = globals()[name] = getattr(importlib.import_module(module), name)
                return value
        raise AttributeError(f"module 'proctor' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
