"""Proctor runs standard coding benchmarks against coding agents and says honestly which configuration is better.

Here is what a program needs: `run`, `resume`, `evaluate`, `validate` and `load_results`, the records that they take and
give, and the protocols that a plugin implements (`Benchmark` and `BenchmarkSource`, `Agent`, `Environment` and
`EnvironmentProvider`). Each name is imported when it is first used, so `import proctor` costs next to nothing.
"""

TYPE_CHECKING = False  # as type checkers know it; importing `typing` would take longer than all of this
if TYPE_CHECKING:
    from proctor.api import (
        EvaluateOptions,
        RunOptions,
        RunResults,
        evaluate,
        evaluate_async,
        load_results,
        resume,
        resume_async,
        run,
        run_async,
        validate,
        validate_async,
    )
    from proctor.core.agent import Agent, AgentFactory, AgentOutcome, AgentRequest, AgentSetup
    from proctor.core.benchmark import (
        Attending,
        Benchmark,
        BenchmarkSource,
        Fetched,
        GradeOptions,
        Health,
        Place,
        ReadsPredictions,
        Sited,
        StatesNeeds,
        TakesTurns,
        Unusable,
    )
    from proctor.core.causes import Cause, Consequence, Status
    from proctor.core.environment import (
        Environment,
        EnvironmentProvider,
        EnvironmentSpec,
        Errand,
        ErrandResult,
        ErrandRunner,
        ExecResult,
        Foresighted,
        Limits,
        Mount,
        Network,
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
        Evaluated,
        EvaluationReport,
        EvaluationSummary,
        Invocation,
        Prediction,
        RepairSummary,
        TestSummary,
    )
    from proctor.core.published import Published
    from proctor.core.record import Record
    from proctor.core.result import AgentMetrics, Attempt, Member, ModelUsage, TaskResult, Tokens
    from proctor.core.run import Budget, JournalEntry, Machine, Mode, RunConfig, RunSummary
    from proctor.core.submission import PatchKind, PatchSubmission, Score, ScoreLogSubmission, StateSubmission
    from proctor.core.sweep import Sweep, SweepRun
    from proctor.core.task import (
        DirectorySource,
        Gold,
        ImageSource,
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
    "AgentFactory",
    "AgentFailure",
    "AgentMetrics",
    "AgentOutcome",
    "AgentRequest",
    "AgentSetup",
    "Attempt",
    "Attending",
    "Benchmark",
    "BenchmarkSource",
    "Budget",
    "Cause",
    "Consequence",
    "DirectorySource",
    "Environment",
    "EnvironmentProvider",
    "EnvironmentSpec",
    "Errand",
    "ErrandResult",
    "ErrandRunner",
    "EvaluateOptions",
    "Evaluated",
    "EvaluationReport",
    "EvaluationSummary",
    "ExecResult",
    "Fetched",
    "Finding",
    "Foresighted",
    "Gold",
    "GradeOptions",
    "Health",
    "ImageSource",
    "InfrastructureError",
    "Interrupted",
    "InvalidData",
    "Invocation",
    "JournalEntry",
    "Lane",
    "LimitReached",
    "Limits",
    "Machine",
    "Member",
    "Mode",
    "ModelUsage",
    "Mount",
    "Network",
    "PatchKind",
    "PatchSubmission",
    "Place",
    "Prediction",
    "PrivatePart",
    "ProctorError",
    "PublicPart",
    "Published",
    "ReadsPredictions",
    "Record",
    "RepairSummary",
    "RepositorySource",
    "RetryableError",
    "RunConfig",
    "RunOptions",
    "RunResults",
    "RunSummary",
    "Score",
    "ScoreLogSubmission",
    "Sited",
    "StateSubmission",
    "StatesNeeds",
    "Status",
    "Step",
    "SubmissionKind",
    "Sweep",
    "SweepRun",
    "TakesTurns",
    "Task",
    "TaskResult",
    "TestOutcome",
    "TestStatus",
    "TestSummary",
    "Tokens",
    "ToolCall",
    "Totals",
    "Trajectory",
    "Unusable",
    "UsageError",
    "Verdict",
    "evaluate",
    "evaluate_async",
    "load_results",
    "resume",
    "resume_async",
    "run",
    "run_async",
    "validate",
    "validate_async",
]

_CORE = (
    *("agent", "benchmark", "causes", "environment", "errors", "evaluation", "published"),
    *("record", "result", "run", "submission", "sweep", "task", "trajectory", "verdict"),
)


if not TYPE_CHECKING:  # a type checker would take every name for exported

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module 'proctor' has no attribute {name!r}")
        import importlib  # noqa: PLC0415 - as above

        # The records are looked through first: they are cheap, and what runs things is not.
        for home in (*(f"proctor.core.{room}" for room in _CORE), "proctor.api"):
            module = importlib.import_module(home)
            if hasattr(module, name):
                break
        value = globals()[name] = getattr(module, name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
