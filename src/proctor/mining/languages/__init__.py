"""Languages: what the tests of a repository need installed, and how they are run."""

from pathlib import Path
from typing import Final

import msgspec

from proctor.benchmarks.suites.format import TestsEval
from proctor.mining.languages.base import EnvironmentPlan, InstallFolder, Language, Project, SetupFailed
from proctor.mining.languages.custom import own_environment, own_tests
from proctor.mining.languages.go import GoLanguage
from proctor.mining.languages.image import described_image, with_image
from proctor.mining.languages.java import JavaLanguage
from proctor.mining.languages.javascript import JavaScriptLanguage
from proctor.mining.languages.python import PythonLanguage
from proctor.mining.languages.rust import RustLanguage
from proctor.mining.settings import MineSettings

__all__ = ["LANGUAGES", "EnvironmentPlan", "Project", "SetupFailed", "plan_environment", "plan_tests"]

LANGUAGES: Final[dict[str, Language]] = {
    language.name: language
    for language in (PythonLanguage(), JavaScriptLanguage(), GoLanguage(), RustLanguage(), JavaLanguage())
}


async def plan_environment(
    language: str, project: Project, settings: MineSettings, install: InstallFolder, *, in_image: bool = False
) -> EnvironmentPlan:
    """What the tests of a project need installed: as its settings say, or as its language does it.

    With `in_image` it is installed in a container, of the image that the repository describes where it does so.

    Raises:
        SetupFailed: nobody knows how.
    """
    is_known = language in LANGUAGES
    described = described_image(project, settings, any_dockerfile=not is_known) if in_image else None

    async def install_in_image(plan: EnvironmentPlan) -> Path:
        return await install(plan if described is None else with_image(plan, described))

    if settings.setup.commands or (described is not None and not is_known):
        plan = own_environment(project, settings)
    else:
        plan = await _language(language).plan_environment(project, settings, install_in_image)
    return plan if described is None else with_image(plan, described)


def plan_tests(language: str, project: Project, settings: MineSettings) -> TestsEval:
    """How the changed tests of a project are run: as its settings say, or as its language does it.

    Raises:
        SetupFailed: nobody knows how.
    """
    own = settings.test.command or settings.test.format is not None
    tests = own_tests(project, settings) if own else _language(language).plan_tests(project, settings)
    return msgspec.structs.replace(
        tests,
        setup=settings.test.build or tests.setup,
        services=settings.test.services,
        timeout_seconds=settings.test.timeout_seconds,
    )


def _language(name: str) -> Language:
    if name not in LANGUAGES:
        reason = (
            f"nothing is known about tests in {name}; say how they run in [setup] commands and [test] command, "
            "or use --runner docker with a Dockerfile"
        )
        raise SetupFailed(reason, code="language")
    return LANGUAGES[name]
