"""What a repository's own settings say about set-up and tests, in place of what a language would do."""

from proctor.benchmarks.suites.format import SuiteEnvironmentFile, TestsEval
from proctor.grading import REPORTER_FORMATS, TestFormat
from proctor.mining.languages.base import EnvironmentPlan, Project, SetupFailed
from proctor.mining.languages.python import PYTHON
from proctor.mining.settings import MineSettings


def own_environment(project: Project, settings: MineSettings) -> EnvironmentPlan:
    """An environment made by the commands of the settings."""
    setup = settings.setup
    runtimes = {**({"python": setup.python} if setup.python else {}), **setup.runtimes}
    return EnvironmentPlan(
        file=SuiteEnvironmentFile(
            schema_version="proctor.suite_environment@1",
            install="\n".join(setup.commands) or "true",
            runtimes=runtimes,
            variables=setup.variables,
            image=setup.image,
        ),
        files={f"files/{name}": data for name, data in project.manifests(setup.files).items()},
    )


def own_tests(project: Project, settings: MineSettings) -> TestsEval:
    """The tests as the settings run them.

    Raises:
        SetupFailed: the settings say half of it.
    """
    test = settings.test
    form = test.format or "exit-code"
    if TestFormat(form) in REPORTER_FORMATS:
        python = PYTHON if settings.setup.commands and "/deps/venv" in " ".join(settings.setup.commands) else None
        arguments = test.command or project.tests
        given = TestsEval(format=form, arguments=_expanded(arguments, project), python=python, options=test.options)
    elif not test.command:
        raise SetupFailed(f"[test] format {form!r} needs a command", code="settings")
    else:
        given = TestsEval(format=form, command=(*_expanded(test.command, project), *test.options))
    return given


def _expanded(words: tuple[str, ...], project: Project) -> tuple[str, ...]:
    """The words of a command, with the changed test files in place of ``{tests}``."""
    expanded: list[str] = []
    for word in words:
        expanded += project.tests if word == "{tests}" else [word]
    return tuple(expanded)
