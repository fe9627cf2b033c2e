"""Languages: what the tests of a repository need installed, and how they are run."""

from typing import Final

from proctor.benchmarks.suites.format import TestsEval
from proctor.mining.languages.base import EnvironmentPlan, InstallFolder, Language, Project, SetupFailed
from proctor.mining.languages.custom import own_environment, own_tests
from proctor.mining.languages.go import GoLanguage
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
    language: str, project: Project, settings: MineSettings, install: InstallFolder
) -> EnvironmentPlan:
    """What the tests of a project need installed: as its settings say, or as its language does it.

    Raises:
        SetupFailed: nobody knows how.
    """
    if settings.setup.commands:
        return own_environment(project, settings)
    return await _language(language).plan_environment(project, settings, install)


def plan_tests(language: str, project: Project, settings: MineSettings) -> TestsEval:
    """How the changed tests of a project are run: as its settings say, or as its language does it.

    Raises:
        SetupFailed: nobody knows how.
    """
    if settings.test.command or settings.test.format is not None:
        return own_tests(project, settings)
    return _language(language).plan_tests(project, settings)


def _language(name: str) -> Language:
    if name not in LANGUAGES:
        reason = f"nothing is known about tests in {name}; say how they run in [setup] commands and [test] command"
        raise SetupFailed(reason, code="language")
    return LANGUAGES[name]
