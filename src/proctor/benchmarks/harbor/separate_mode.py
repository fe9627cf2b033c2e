"""Shared tasks with their verifiers in environments of their own, where files are all that the verifier needs."""

import re
from typing import Final

import msgspec

from proctor.benchmarks.harbor.task import ARTIFACTS_DIR, Artifact, HarborStep, HarborTask

# What tests say that look for what runs, not for files.
_RUNNING: Final = re.compile(
    r"localhost|127\.0\.0\.1|0\.0\.0\.0|::1|psutil|pgrep|pidof|/proc/|\bps (aux|-)|['\"]ps['\"]|systemctl|socket\."
)
_NO_WORK: Final = frozenset({"", "/"})


def separately(task: HarborTask) -> HarborTask:
    """The same task with every shared verifier in an environment of its own, where it needs files only.

    The files are those that the task names, or all of its working directory. A step whose tests look for what runs, or
    that works in ``/`` and names no files, stays as it is.
    """
    return msgspec.structs.replace(task, steps=tuple(_separate_step(task, step) for step in task.steps))


def _separate_step(task: HarborTask, step: HarborStep) -> HarborStep:
    if step.verifier.environment is not None or not _needs_files_only(step):
        return step
    own = task.environment
    artifacts = step.artifacts
    if not artifacts:
        if own.workdir in _NO_WORK:
            return step
        artifacts = (Artifact(source=own.workdir), Artifact(source=ARTIFACTS_DIR))
    verifier = msgspec.structs.replace(step.verifier, environment=own)
    return msgspec.structs.replace(step, verifier=verifier, artifacts=artifacts)


def _needs_files_only(step: HarborStep) -> bool:
    read = (file.read_bytes().decode("utf-8", "replace") for file in step.test_files().values())
    return not any(_RUNNING.search(text) for text in read)
