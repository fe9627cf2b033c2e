"""Proctor runs standard coding benchmarks against coding agents and says honestly which configuration is better.

Here is what a program needs: `run`, `resume`, `sweep`, `evaluate`, `validate` and `load_results`, the records that they
take and give, and the protocols that a plugin implements (`Benchmark` and `BenchmarkSource`, `Agent`, `Environment` and
`EnvironmentProvider`). Each name is imported when it is first used, so `import proctor` costs next to nothing.
"""

TYPE_CHECKING = False  # as type checkers know it; importing `typing` would take longer than all of this
if TYPE_CHECKING:
    from proctor.analysis.sweep import SweepOutcome
    from proctor.api import (
        CommonOptions,
        EvaluateOptions,
        ResumeOptions,
        RunOptions,
        RunResults,
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
    from proctor.core.agent import Agent, AgentOutcome, AgentRequest, AgentSetup
    from proctor.core.benchmark import (
        AttemptLogs,
        Benchmark,
        BenchmarkSource,
        DatasetInfo,
        GradeOptions,
        GradingContext,
        InvalidTask,
        LogMeasure,
        TaskHealth,
    )
    from proctor.core.causes import Cause, Consequence, Status
    from proctor.core.environment import (
        Environment,
        EnvironmentProvider,
        EnvironmentSpec,
        ExecResult,
        Limits,
        Mount,
        Network,
        OneShotCommand,
        OneShotResult,
    )
    from proctor.core.errors import (
        AgentFailure,
        InfrastructureError,
        Interrupted,
        InvalidData,
        LimitReached,
        ProctorError,
        RetryableError,
        UsageError,
    )
    from proctor.core.evaluation import (
        EvaluationReport,
        EvaluationSummary,
        Invocation,
        Prediction,
        RepairSummary,
        TaskEvaluation,
        TestSummary,
    )
    from proctor.core.published_result import PublishedResult
    from proctor.core.record import Record
    from proctor.core.result import AgentMetrics, Attempt, Member, ModelUsage, TaskResult, Tokens
    from proctor.core.run import Budget, JournalEntry, Machine, Mode, RunConfig, RunSummary
    from proctor.core.submission import PatchKind, PatchSubmission, ScoreLogEntry, ScoreLogSubmission, StateSubmission
    from proctor.core.sweep import Sweep, SweepRun
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
    from proctor.core.trajectory import Lane, Step, ToolCall, Totals, Trajectory
    from proctor.core.verdict import Finding, TestOutcome, TestStatus, Verdict

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "AgentFailure",
    "AgentMetrics",
    "AgentOutcome",
    "AgentRequest",
    "AgentSetup",
    "Attempt",
    "AttemptLogs",
    "Benchmark",
    "BenchmarkSource",
    "Budget",
    "Cause",
    "CommonOptions",
    "Consequence",
    "DatasetInfo",
    "DirectorySource",
    "Environment",
    "EnvironmentProvider",
    "EnvironmentSpec",
    "EvaluateOptions",
    "EvaluationReport",
    "EvaluationSummary",
    "ExecResult",
    "Finding",
    "GradeOptions",
    "GradingContext",
    "ImageSource",
    "InfrastructureError",
    "Interrupted",
    "InvalidData",
    "InvalidTask",
    "Invocation",
    "JournalEntry",
    "Lane",
    "LimitReached",
    "Limits",
    "LogMeasure",
    "Machine",
    "Member",
    "Mode",
    "ModelUsage",
    "Mount",
    "Network",
    "OneShotCommand",
    "OneShotResult",
    "Oracle",
    "PatchKind",
    "PatchSubmission",
    "Prediction",
    "PrivatePart",
    "ProctorError",
    "PublicPart",
    "PublishedResult",
    "Record",
    "RepairSummary",
    "RepositorySource",
    "ResumeOptions",
    "RetryableError",
    "RunConfig",
    "RunOptions",
    "RunResults",
    "RunSummary",
    "ScoreLogEntry",
    "ScoreLogSubmission",
    "StateSubmission",
    "Status",
    "Step",
    "SubmissionKind",
    "Sweep",
    "SweepOutcome",
    "SweepResults",
    "SweepRun",
    "Task",
    "TaskEvaluation",
    "TaskHealth",
    "TaskResult",
    "TestOutcome",
    "TestStatus",
    "TestSummary",
    "Tokens",
    "ToolCall",
    "Totals",
    "Trajectory",
    "UsageError",
    "Verdict",
    "evaluate",
    "evaluate_async",
    "load_results",
    "resume",
    "resume_async",
    "resume_sweep",
    "resume_sweep_async",
    "run",
    "run_async",
    "sweep",
    "sweep_async",
    "validate",
    "validate_async",
]

_CORE = (
    *("agent", "benchmark", "causes", "environment", "errors", "evaluation", "published_result"),
    *("record", "result", "run", "submission", "sweep", "task", "trajectory", "verdict"),
)


if not TYPE_CHECKING:  # a type checker would take every name for exported

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module 'proctor' has no attribute {name!r}")
        import importlib  # noqa: PLC0415 - as above

        # The records are looked through first: they are cheap, and what runs things is not.
        for home in (*(f"proctor.core.{module_name}" for module_name in _CORE), "proctor.api"):
            module = importlib.import_module(home)
            if hasattr(module, name):
                break
        value = globals()[name] = getattr(module, name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
