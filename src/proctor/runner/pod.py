"""The pod of a run: what it is made from, and whether that is still what it was."""

from collections.abc import Mapping
from typing import Final

from proctor.agents.h2.template import PodTemplate, load_checked_template
from proctor.core.errors import InvalidData
from proctor.core.request import Mode
from proctor.core.run import RunConfig
from proctor.sandboxes.preset import load_preset, user_presets

# The name among a run's versions of what identifies its pod.
POD_VERSION_KEY: Final = "pod"


def preset_files(preset: str) -> dict[str, bytes]:
    """What a sandbox made from this preset will hold, by path relative to it.

    Raises:
        UsageError: there is no such preset, or it cannot be used.
    """
    chosen = load_preset(preset, folder=user_presets())
    return {path: file.content for path, file in chosen.render(chosen.model).items()}


def resolve_pod(template: str | None, preset: str, variables: Mapping[str, str]) -> tuple[PodTemplate, str]:
    """The pod template that is meant, and what identifies all that the pod will be made from.

    Raises:
        UsageError: there is no such template or preset, or it cannot be filled in with these variables.
    """
    files = preset_files(preset)
    chosen = load_checked_template(template, files, variables)
    return chosen, chosen.digest(files)


def check_pod_unchanged(config: RunConfig) -> None:
    """See that a pod is still what it was when its run was started.

    Raises:
        InvalidData: it is another.
    """
    if config.mode is Mode.H2:
        _, digest = resolve_pod(config.pod_template, config.preset, config.variables)
        if config.versions.get(POD_VERSION_KEY) not in {None, digest}:
            raise InvalidData(
                "the pod has changed since the run was started: its template, its roles or its preset",
                where=config.pod_template,
                fix="put it back as it was, or start a new run",
            )
