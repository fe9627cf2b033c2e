"""The files of a Harbor job, as they are written."""

import hashlib
import math
import string
import uuid
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from proctor.analysis.pass_at_k import pass_at_k
from proctor.core.causes import CONSEQUENCES, Cause, Status
from proctor.core.disk_names import disk_name
from proctor.core.record import to_json
from proctor.core.result import ModelUsage, TaskResult
from proctor.core.run import RunConfig
from proctor.core.verdict import TestStatus, Verdict
from proctor.report.formats.harbor_exceptions import EXCEPTION_NAMES
from proctor.results import usage_cost

_ID_NAMESPACE: Final = uuid.UUID("0f6c2e58-6a53-4d38-9b5e-2f1a4b1f9c70")
_ID_ALPHABET: Final = string.ascii_letters + string.digits
_NAME_LENGTH, _ID_LENGTH = 32, 7
CTRF_STATUSES: Final = {TestStatus.PASSED: "passed", TestStatus.FAILED: "failed", TestStatus.SKIPPED: "skipped"}

JsonObject = dict[str, Any]


class HarborJobWriter:
    """A job that is being written."""

    def __init__(self, config: RunConfig, agent: str, version: str) -> None:
        self._config = config
        self._agent = agent
        self._version = version
        self._id = str(uuid.uuid5(_ID_NAMESPACE, f"{config.benchmark}/{config.run_id}/{config.created_at}"))
        self._trials: list[JsonObject] = []

    def trial_name(self, result: TaskResult) -> str:
        """The name of a trial's folder, as Harbor makes them: a piece of the task's name, and an id."""
        number = int.from_bytes(hashlib.sha256(f"{self._id}/{result.task_id}/{result.trial}".encode()).digest())
        letters = [
            _ID_ALPHABET[number // len(_ID_ALPHABET) ** digit % len(_ID_ALPHABET)] for digit in range(_ID_LENGTH)
        ]
        return f"{_safe_name(result.task_id)[:_NAME_LENGTH]}__{''.join(letters)}"

    def trial(self, result: TaskResult) -> tuple[JsonObject, JsonObject]:
        """The result and the configuration of a trial."""
        name, last = self.trial_name(result), result.attempts[-1] if result.attempts else None
        path = f"{_safe_name(self._config.benchmark)}/{_safe_name(result.task_id)}"
        config = {
            "task": {"path": path, "source": self._config.benchmark},
            "trial_name": name,
            "agent": self._agent_config(),
            "job_id": self._id,
        }
        started, ended = (_valid_time(last.started_at), _valid_time(last.ended_at)) if last else (None, None)
        graded = _add_seconds(ended, result.grade_seconds)
        document = {
            "id": str(uuid.uuid5(_ID_NAMESPACE, f"{self._id}/{name}")),
            "task_name": result.task_id,
            "trial_name": name,
            "trial_uri": f"proctor:{self._config.benchmark}/{self._config.run_id}/{name}",
            "task_id": {"path": path},
            "source": self._config.benchmark,
            "task_checksum": "",
            "config": config,
            "agent_info": self._agent_info(),
            "agent_result": _agent_result(result.usage),
            "verifier_result": {"rewards": rewards} if (rewards := rewards_of(result)) else None,
            "exception_info": self._exception_info(result, ended),
            "started_at": started,
            "finished_at": graded,
            "agent_execution": {"started_at": started, "finished_at": ended},
            "verifier": {"started_at": ended, "finished_at": graded} if rewards else None,
            "step_results": _step_results(result, started) or None,
        }
        self._trials.append(document)
        return document, config

    def files(self) -> dict[str, bytes]:
        """The job's own files, once all trials are written."""
        parts = (self._config.benchmark, self._config.run_id, self._config.name or self._config.label)
        config = {
            "job_name": "-".join(map(_safe_name, filter(None, parts))),
            "n_attempts": max(1, self._config.trials),
            "n_concurrent_trials": max(1, self._config.concurrency),
            "agents": [self._agent_config()],
            "tasks": [trial["config"]["task"] for trial in self._trials],
        }
        ends = [trial["finished_at"] for trial in self._trials if trial["finished_at"]]
        errors = [trial for trial in self._trials if trial["exception_info"]]
        used = [trial["agent_result"] for trial in self._trials if trial["agent_result"]]
        result = {
            "id": self._id,
            "started_at": _valid_time(self._config.created_at) or min(ends, default="1970-01-01T00:00:00+00:00"),
            "finished_at": max(ends, default=None),
            "n_total_trials": len(self._trials),
            "stats": {
                "n_completed_trials": len(self._trials),
                "n_errored_trials": len(errors),
                "evals": {self._eval_key(): self._eval()} if self._trials else {},
                **{
                    name: _sum(each[name] for each in used)
                    for name in ("n_input_tokens", "n_cache_tokens", "n_output_tokens", "cost_usd")
                },
            },
        }
        return {"config.json": to_json(config), "result.json": to_json(result)}

    def _eval_key(self) -> str:
        model = self._model()
        parts = (self._agent, model["name"] if model else None, self._config.benchmark)
        return "__".join(part for part in parts if part)

    def _eval(self) -> JsonObject:
        """The numbers of the job as Harbor counts them: a trial without a reward counts as 0."""
        keys = {key for trial in self._trials for key in _rewards(trial)} or {"reward"}
        stats: dict[str, dict[str, list[str]]] = {}
        raised: dict[str, list[str]] = {}
        for trial in self._trials:
            for key, value in _rewards(trial).items():
                stats.setdefault(key, {}).setdefault(str(float(value)), []).append(trial["trial_name"])
            if trial["exception_info"]:
                raised.setdefault(trial["exception_info"]["exception_type"], []).append(trial["trial_name"])
        means = {key: sum(_rewards(trial).get(key, 0.0) for trial in self._trials) / len(self._trials) for key in keys}
        return {
            "n_trials": sum(bool(_rewards(trial)) for trial in self._trials),
            "n_errors": sum(map(len, raised.values())),
            "metrics": [{"mean": means["reward"]} if keys == {"reward"} else means],
            "pass_at_k": self._pass_at_k() if keys == {"reward"} else {},
            "reward_stats": stats,
            "exception_stats": raised,
        }

    def _pass_at_k(self) -> dict[str, float]:
        by_task: dict[str, list[float]] = {}
        for trial in self._trials:
            by_task.setdefault(trial["task_name"], []).append(_rewards(trial).get("reward", 0.0))
        if any(reward not in {0, 1} for rewards in by_task.values() for reward in rewards):
            return {}
        fewest = min(map(len, by_task.values()))
        return {
            str(k): sum(pass_at_k(len(rewards), int(sum(rewards)), k) for rewards in by_task.values()) / len(by_task)
            for k in sorted({*_powers(fewest), *range(5, fewest + 1, 5)})
        }

    def _agent_config(self) -> JsonObject:
        return {"name": self._agent, "model_name": self._config.model}

    def _agent_info(self) -> JsonObject:
        return {"name": self._agent, "version": self._version or "unknown", "model_info": self._model()}

    def _model(self) -> JsonObject | None:
        """The model, with the part before a slash as its provider; the path of a script or a recording has none."""
        if not self._config.model:
            return None
        provider, slash, name = self._config.model.partition("/")
        if not slash or ":" in provider:
            return {"name": self._config.model, "provider": None}
        return {"name": name, "provider": provider}

    def _exception_info(self, result: TaskResult, at: str | None) -> JsonObject | None:
        last = result.attempts[-1] if result.attempts else None
        cause = last.cause if last is not None and last.cause in EXCEPTION_NAMES else result.cause
        if result.status is not Status.ERROR and cause not in EXCEPTION_NAMES:
            return None
        return {
            "exception_type": EXCEPTION_NAMES.get(cause, EXCEPTION_NAMES[Cause.ENVIRONMENT_FAILED])[0],
            "exception_message": (last.detail if last else "") or cause.value,
            "exception_traceback": "",
            "occurred_at": at or _valid_time(self._config.created_at) or "1970-01-01T00:00:00+00:00",
        }


def trial_files(job: HarborJobWriter, result: TaskResult, trajectory: bytes | None) -> dict[str, bytes]:
    """All files of a trial, by their names in its folder."""
    document, config = job.trial(result)
    files = {"config.json": to_json(config), "result.json": to_json(document)}
    rewards = rewards_of(result)
    if rewards == {"reward": rewards.get("reward")}:
        files["verifier/reward.txt"] = f"{rewards['reward']:g}\n".encode()
    elif rewards:
        files["verifier/reward.json"] = to_json(rewards)
    if result.verdict is not None and result.verdict.tests:
        files["verifier/ctrf.json"] = _ctrf(result.verdict)
    if trajectory is not None:
        files["agent/trajectory.json"] = trajectory
    return files


def rewards_of(result: TaskResult) -> dict[str, float]:
    """The rewards that Harbor's verifier would have given; none for a trial that is not counted."""
    if result.status is Status.ERROR or not CONSEQUENCES[result.cause].counted:
        return {}
    verdict = result.verdict
    reward = 1.0 if result.status is Status.RESOLVED else 0.0
    if verdict is not None and verdict.score is not None and math.isfinite(verdict.score):
        reward = verdict.score
    steps = tuple(f"{step.name}/" for step in result.steps)
    more = verdict.scores if verdict is not None else {}
    more = {name: value for name, value in more.items() if math.isfinite(value) and not name.startswith(steps)}
    return {"reward": reward, **more}


def _ctrf(verdict: Verdict) -> bytes:
    """The tests in the Common Test Report Format, as Harbor's verifiers write it."""
    tests = [
        {"name": test.id, "status": CTRF_STATUSES.get(test.after or TestStatus.MISSING, "other"), "duration": 0}
        for test in verdict.tests
    ]
    statuses = ("passed", "failed", "skipped", "other")
    counts = {status: sum(test["status"] == status for test in tests) for status in statuses}
    summary = {"tests": len(tests), **counts, "pending": 0, "start": 0, "stop": 0}
    return to_json({"results": {"tool": {"name": verdict.grader or "proctor"}, "summary": summary, "tests": tests}})


def _step_results(result: TaskResult, at: str | None) -> list[JsonObject]:
    """The steps, each after the one before it: a result has how long they took, not when they began."""
    made = []
    scores = result.verdict.scores if result.verdict is not None else {}
    for step in result.steps:
        ended = _add_seconds(at, step.seconds)
        verified = _add_seconds(ended, step.verify_seconds)
        prefix = f"{step.name}/"
        rewards = {name.removeprefix(prefix): value for name, value in scores.items() if name.startswith(prefix)}
        made.append(
            {
                "step_name": step.name,
                "agent_result": _agent_result(step.usage),
                "verifier_result": {"rewards": rewards} if rewards else None,
                "agent_execution": {"started_at": at, "finished_at": ended},
                "verifier": {"started_at": ended, "finished_at": verified},
            }
        )
        at = verified
    return made


def _agent_result(used: Sequence[ModelUsage]) -> JsonObject | None:
    if not used:
        return None
    tokens = [usage.tokens for usage in used]
    return {
        "n_input_tokens": sum(each.total - each.output for each in tokens),
        "n_cache_tokens": sum(each.cache_read for each in tokens),
        "n_output_tokens": sum(each.output for each in tokens),
        "cost_usd": usage_cost(used),
    }


def _rewards(trial: JsonObject) -> dict[str, float]:
    return trial["verifier_result"]["rewards"] if trial["verifier_result"] else {}


def _sum(values: Iterator[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _powers(most: int) -> Sequence[int]:
    return [2**power for power in range(1, most.bit_length()) if 2**power <= most]


def _safe_name(name: str) -> str:
    return disk_name(name).replace("~/", "").replace("%", "_").replace("/", "_")


def _valid_time(text: str) -> str | None:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return None
    return text


def _add_seconds(at: str | None, seconds: float) -> str | None:
    return (datetime.fromisoformat(at) + timedelta(seconds=seconds)).isoformat() if at else None
