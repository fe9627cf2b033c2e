"""Job folders of Harbor (https://github.com/harbor-framework/harbor): a run becomes one, and one becomes a run.

    <job>/{config.json, result.json}
    <job>/<task>__<id>/{config.json, result.json, agent/trajectory.json, verifier/{reward.json, ctrf.json}, …}

Harbor stores less of a trial than we do. What it has no field for is in a file of our own beside its result, which is
used only while that result is unchanged.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from proctor.core.causes import CONSEQUENCES, Cause, Status
from proctor.core.errors import InvalidData, UsageError
from proctor.core.record import Record, read_bytes, read_record, to_json
from proctor.core.result import AgentMetrics, Attempt, ModelUsage, StepResult, TaskResult, Tokens, sum_usage
from proctor.core.run import RunConfig
from proctor.core.user_files import parse_json, read_limited
from proctor.core.verdict import TestOutcome, TestStatus, Verdict
from proctor.report.formats.harbor_exceptions import CAUSES_BY_EXCEPTION
from proctor.report.formats.harbor_job import CTRF_STATUSES, HarborJobWriter, trial_files
from proctor.report.formats.harbor_records import (
    HarborAgentResult,
    HarborLock,
    HarborStepResult,
    HarborTrial,
    seconds_between,
)
from proctor.report.trajectories import (
    ATIF_FILE,
    agent_version,
    from_atif,
    readable_trajectory,
    to_atif,
    trajectory_metrics,
)
from proctor.results import RunStore
from proctor.results.attempt_record import SUBMISSION_FILES
from proctor.results.formats import (
    ExportOptions,
    ExportResult,
    ExternalRun,
    ExternalTrial,
    Format,
    ImportOptions,
    count_files,
    external_config,
    unknown_usage,
)

PROCTOR_FILE: Final = "proctor.json"
_AGENTS_WITHOUT_MODEL: Final = ("oracle", "nop")  # Harbor's agents that call no model
_MAX_LOG_FILE_BYTES: Final = 16 << 20
_TEST_STATUSES: Final = {name: status for status, name in CTRF_STATUSES.items()}


class HarborJobExtra(Record):
    """What we store beside a job's result: the configuration of the run that was exported."""

    config: RunConfig
    schema_version: Literal["proctor.harbor_job@1"] = "proctor.harbor_job@1"


class HarborTrialExtra(Record):
    """What we store beside a trial's result: our own result, and the digest of Harbor's."""

    sha256: str
    result: TaskResult
    schema_version: Literal["proctor.harbor_trial@1"] = "proctor.harbor_trial@1"


class HarborFormat(Format):
    """A job folder, as Harbor's own viewer reads it."""

    about = "a job folder of Harbor, with ATIF trajectories"
    suffix = ""

    def export(self, run: RunStore, target: Path, options: ExportOptions) -> ExportResult:
        """Write every trial that was made."""
        target.mkdir()
        config = run.config()
        job = HarborJobWriter(config, options.name or config.agent, agent_version(config))
        left_out = list[str]()
        for result in run.results():
            if result.status is Status.SKIPPED:
                left_out.append(f"{result.task_id}: it was skipped, and Harbor stores only trials that were made")
                continue
            trajectory = readable_trajectory(run, config, result, left_out)
            files = trial_files(job, result, to_atif(trajectory) if trajectory else None)
            digest = hashlib.sha256(files["result.json"]).hexdigest()
            files[PROCTOR_FILE] = to_json(HarborTrialExtra(sha256=digest, result=result))
            files |= _submission(run, result)
            _write(target / job.trial_name(result), files)
            if len(result.attempts) > 1:
                left_out.append(f"{result.task_id}: of {len(result.attempts)} attempts, Harbor stores only the last")
        _write(target, {**job.files(), PROCTOR_FILE: to_json(HarborJobExtra(config=config))})
        return ExportResult(files=count_files(target), left_out=tuple(left_out))

    def read(self, source: Path, options: ImportOptions) -> ExternalRun:
        """Read the trials of one agent and model; a job may hold several, and a run is of one."""
        if not (source / "result.json").is_file():
            raise InvalidData("this is not a job folder: it has no result.json", where=source)
        trials = [
            (folder, read_record(folder / "result.json", HarborTrial))
            for folder in sorted(source.iterdir())
            if (folder / "result.json").is_file()
        ]
        trials = [(folder, trial) for folder, trial in trials if _is_wanted(trial, options)]
        agents = sorted({(trial.agent_info.name, trial.model or "") for _, trial in trials})
        if not agents:
            raise InvalidData("the job has no finished trial of this agent and model", where=source)
        if len(agents) > 1:
            names = ", ".join(f"{agent} {model}".strip() for agent, model in agents)
            raise UsageError(f"the job holds the trials of several agents: {names}", fix="choose with --agent, --model")
        config = _config(source, trials, options)
        return ExternalRun(config, _imported_trials(trials, config.benchmark))


def _config(source: Path, trials: Sequence[tuple[Path, HarborTrial]], options: ImportOptions) -> RunConfig:
    own = source / PROCTOR_FILE
    if own.is_file() and options.benchmark is None:
        return msgspec.structs.replace(read_record(own, HarborJobExtra).config, origin=str(source))
    sources = sorted({trial.source or "" for _, trial in trials})
    benchmark = options.benchmark or (sources[0] if len(sources) == 1 else "")
    if not benchmark:
        raise UsageError("the job does not name the benchmark of its tasks", fix="give --benchmark BENCH")
    first = trials[0][1]
    versions = {first.agent_info.name: first.agent_info.version}
    lock = source / "lock.json"
    if lock.is_file():
        harbor = read_record(lock, HarborLock).harbor
        versions |= {"harbor": harbor.version} if harbor else {}
    environment = first.config.get("environment")
    kind = environment.get("type") if isinstance(environment, dict) else None
    return external_config(
        benchmark=benchmark,
        origin=str(source),
        agent=first.agent_info.name,
        model=first.model,
        versions=versions,
        created_at=min((trial.started_at for _, trial in trials if trial.started_at), default=None),
        runner=kind if isinstance(kind, str) else "elsewhere",
        data_digest=_checksum(trials),
    )


def _checksum(trials: Sequence[tuple[Path, HarborTrial]]) -> str:
    """Identifies the tasks' data: by Harbor's own checksum of each."""
    lines = sorted({f"{trial.task_name} {trial.task_checksum}" for _, trial in trials})
    return "harbor:" + hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _is_wanted(trial: HarborTrial, options: ImportOptions) -> bool:
    return (options.agent is None or trial.agent_info.name == options.agent) and (
        options.model is None or trial.model == options.model
    )


def _imported_trials(trials: Sequence[tuple[Path, HarborTrial]], benchmark: str) -> Iterator[ExternalTrial]:
    numbers: Counter[str] = Counter()
    for folder, trial in sorted(trials, key=lambda pair: (pair[1].started_at or "", pair[0].name)):
        files = _log_files(folder)
        own = _stored_result(folder)
        if own is not None:
            yield ExternalTrial(own, files)
            continue
        numbers[trial.task_name] += 1
        result = _result(folder, trial, benchmark, numbers[trial.task_name], files.get(ATIF_FILE))
        yield ExternalTrial(result, files)


def _stored_result(folder: Path) -> TaskResult | None:
    """Our own result of this trial, if Harbor's is unchanged since."""
    file = folder / PROCTOR_FILE
    if not file.is_file():
        return None
    own = read_record(file, HarborTrialExtra)
    return own.result if own.sha256 == hashlib.sha256(read_bytes(folder / "result.json")).hexdigest() else None


def _result(
    folder: Path, trial: HarborTrial, benchmark: str, trial_number: int, trajectory: bytes | None
) -> TaskResult:
    verdict = _verdict(folder, trial)
    cause = _cause(trial, verdict)
    consequence = CONSEQUENCES[cause]
    status = verdict.status if verdict and consequence.status is None else consequence.status
    stored = tuple(_step(trial, step) for step in trial.steps)
    usage = (
        _usage(trial, trial.agent_result) if not stored else sum_usage(used for step in stored for used in step.usage)
    )
    attempt = Attempt(
        number=1,
        started_at=trial.started_at or "",
        ended_at=trial.finished_at or "",
        cause=Cause.ANSWERED if trial.raised is None else cause,
        detail=trial.raised.exception_message if trial.raised else "",
        logs="",
        usage=usage,
    )
    steps = from_atif(trajectory, where=folder) if trajectory else None
    return TaskResult(
        run_id="",
        benchmark=benchmark,
        task_id=trial.task_name,
        trial=trial_number,
        status=status or Status.ERROR,
        cause=cause,
        verdict=verdict,
        attempts=(attempt,),
        usage=usage,
        metrics=trajectory_metrics(steps) if steps else AgentMetrics(),
        agent_seconds=seconds_between(trial.agent_execution) or sum(step.seconds for step in stored),
        grade_seconds=seconds_between(trial.verifier) or sum(step.verify_seconds for step in stored),
        steps=stored,
        categories={},
    )


def _step(trial: HarborTrial, step: HarborStepResult) -> StepResult:
    raised = step.exception_info
    return StepResult(
        name=step.step_name,
        seconds=seconds_between(step.agent_execution),
        usage=_usage(trial, step.agent_result),
        cause=CAUSES_BY_EXCEPTION.get(raised.exception_type, Cause.ENVIRONMENT_FAILED) if raised else None,
        detail=raised.exception_message if raised else "",
        verify_seconds=seconds_between(step.verifier),
    )


def _cause(trial: HarborTrial, verdict: Verdict | None) -> Cause:
    """Why it ended. After an exception of the agent the submission is graded; after others no reward is valid."""
    raised = CAUSES_BY_EXCEPTION.get(trial.raised.exception_type, Cause.ENVIRONMENT_FAILED) if trial.raised else None
    if raised is not None and (verdict is None or not CONSEQUENCES[raised].graded):
        return Cause.GRADER_FAILED if CONSEQUENCES[raised].graded else raised
    if verdict is None:
        return Cause.GRADER_FAILED
    return raised if raised is not None and verdict.status is Status.UNRESOLVED else verdict.cause


def _verdict(folder: Path, trial: HarborTrial) -> Verdict | None:
    rewards = trial.verifier_result.rewards if trial.verifier_result else None
    if not rewards:
        return None
    reward = rewards.get("reward", next(iter(rewards.values())) if len(rewards) == 1 else None)
    if reward is None:
        reward = sum(rewards.values()) / len(rewards)
    solved = reward >= 1
    return Verdict(
        task_id=trial.task_name,
        status=Status.RESOLVED if solved else Status.UNRESOLVED,
        cause=Cause.SOLVED if solved else Cause.TESTS_FAILED,
        reason=f"Harbor's verifier gave a reward of {reward:g}",
        score=None if reward in {0, 1} else min(1.0, max(0.0, reward)),
        scores={
            **{name: float(value) for name, value in rewards.items() if name != "reward"},
            **{
                f"{step.step_name}/{name}": float(value)
                for step in trial.steps
                for name, value in ((step.verifier_result and step.verifier_result.rewards) or {}).items()
            },
        },
        tests=_tests(folder / "verifier" / "ctrf.json"),
        grader="harbor",
        seconds=seconds_between(trial.verifier),
    )


def _tests(file: Path) -> tuple[TestOutcome, ...]:
    """The tests that the verifier has listed; none if the list cannot be read, since the reward decides."""
    try:
        tests = parse_json(read_limited(file))["results"]["tests"]
        return tuple(
            TestOutcome(id=str(test["name"]), before=None, after=_TEST_STATUSES.get(test["status"], TestStatus.ERROR))
            for test in tests
        )
    except (OSError, ValueError, LookupError, TypeError):
        return ()


def _usage(trial: HarborTrial, used: HarborAgentResult | None) -> tuple[ModelUsage, ...]:
    if used is None or (used.n_input_tokens is None and used.n_output_tokens is None and used.cost_usd is None):
        return () if trial.agent_info.name in _AGENTS_WITHOUT_MODEL else unknown_usage(trial.model)
    cached = used.n_cache_tokens or 0
    tokens = Tokens(
        input=max(0, (used.n_input_tokens or 0) - cached), output=used.n_output_tokens or 0, cache_read=cached
    )
    return (ModelUsage(model=trial.model or "unknown", requests=0, tokens=tokens, cost_usd=used.cost_usd),)


def _log_files(folder: Path) -> dict[str, bytes]:
    """The files of a trial for the logs: its own, the trajectory, the submission."""
    files = {}
    for file in sorted(folder.rglob("*")):
        if file.is_symlink() or not file.is_file() or file.stat().st_size > _MAX_LOG_FILE_BYTES:
            continue
        name = file.relative_to(folder).as_posix()
        if name != PROCTOR_FILE:
            files[f"harbor/{name}"] = read_bytes(file)
    if f"harbor/agent/{ATIF_FILE}" in files:
        files[ATIF_FILE] = files.pop(f"harbor/agent/{ATIF_FILE}")
    for name in SUBMISSION_FILES.values():
        if f"harbor/artifacts/{name}" in files:
            files[name] = files.pop(f"harbor/artifacts/{name}")
    return files


def _submission(run: RunStore, result: TaskResult) -> dict[str, bytes]:
    logs = run.folder / result.attempts[-1].logs if result.attempts else None
    files = [logs / name for name in SUBMISSION_FILES.values()] if logs else []
    return {f"artifacts/{file.name}": file.read_bytes() for file in files if file.is_file()}


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
