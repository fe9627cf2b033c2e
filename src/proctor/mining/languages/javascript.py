"""JavaScript and TypeScript: packages by lock files; vitest, jest, mocha, ava, tape, tap, or node's own runner."""

import re
import shlex
from pathlib import PurePosixPath
from typing import Final

from proctor.benchmarks.suites.format import SuiteEnvironmentFile, TestsEval
from proctor.mining.languages.base import EnvironmentPlan, InstallFolder, Language, Project, SetupFailed, month_start
from proctor.mining.languages.node_packages import add_package, install_commands, lock_of, manifests, read_package
from proctor.mining.settings import MineSettings

_TEST_FILE: Final = re.compile(r"\.[cm]?[jt]sx?$")
_HELPERS: Final = re.compile(
    r"(?:^|/)(?:helpers?|fixtures?|__fixtures__|__mocks__|_[^/]*|utils?|setup)(?:[./]|$)|\.d\.ts$"
)
# Programs that run tests, the first that a project has; each with its own way to report.
_COMMANDS: Final = {
    "vitest": (("vitest", "run", "--reporter=default", "--reporter=junit", "--outputFile.junit={report}"), "junit"),
    "jest": (
        (
            "env",
            "JEST_JUNIT_OUTPUT_FILE={report}",
            "JEST_JUNIT_CLASSNAME={filepath}",
            "jest",
            "--ci",
            "--reporters=jest-junit",
        ),
        "junit",
    ),
    "mocha": (("mocha", "--reporter", "xunit", "--reporter-option", "output={report}"), "junit"),
    "ava": (("ava", "--tap"), "tap"),
    "tape": (("tape",), "tap"),
    "tap": (("tap", "--reporter=tap"), "tap"),
}
_MOST_READ: Final = 500
# Vite writes there, and it cannot be written to while tests run.
_WRITTEN: Final = "for name in .vite-temp .vite .cache; do ln -sfn /tmp /deps/node_modules/$name; done"
_JEST_JUNIT: Final = "jest-junit@16.0.0"
_BUILDS: Final = re.compile(
    r"\b(?:npm run|pnpm|yarn|pnpm run|yarn run) (build|compile|prepare|transpile)\b|\b(tsc)\b(?! --noEmit)"
)


class JavaScriptLanguage(Language):
    """JavaScript and TypeScript."""

    name = "javascript"

    async def plan_environment(
        self,
        project: Project,
        settings: MineSettings,
        install: InstallFolder,
    ) -> EnvironmentPlan:
        """The packages of the lock file; without one, those of the change's month."""
        version = settings.setup.runtimes.get("node", "*")
        script = [
            "export HOME=/tmp/home; mkdir -p $HOME",
            "cp -r /environment/files/. .",
            *install_commands(project),
            # Some packages fetch or build a program of theirs after they are installed.
            "npm rebuild --ignore-scripts=false >/dev/null 2>&1 || true",
        ]
        if _runner(project) == "jest":
            script += add_package(_JEST_JUNIT)
        script += ["cp -a node_modules /deps/node_modules", _WRITTEN]
        return EnvironmentPlan(
            file=SuiteEnvironmentFile(
                schema_version="proctor.suite_environment@1",
                install="\n".join(script),
                runtimes={"node": version},
                variables={
                    "PATH": "/node_modules/.bin",
                    "CI": "1",
                    "NODE_PATH": "/node_modules",
                    **settings.setup.variables,
                },
                shown={"node_modules": "/node_modules"},
                image=settings.setup.image or f"node:{'20' if version == '*' else version}-bookworm",
                date=None if lock_of(project) else month_start(project.date),
            ),
            files={f"files/{name}": data for name, data in manifests(project).items()},
        )

    def plan_tests(self, project: Project, settings: MineSettings) -> TestsEval:
        """The changed test files, by the project's own test program."""
        files = [path for path in project.tests if _TEST_FILE.search(path) and not _HELPERS.search(path)]
        if not files:
            raise SetupFailed("changes no test file that a test program would run", code="no-test-module")
        runner = _runner(project)
        script = _test_script(project, runner)
        if runner == "node":
            command, form = (*_node_command(script), "--test", "--test-reporter=tap"), "tap"
        elif runner is None:
            raise SetupFailed(
                f"no test program is known for it (its script is {script!r}); name one in [test] command and format",
                code="no-test-program",
            )
        else:
            command, form = _COMMANDS[runner]
            command = (*command, *_mocha_options(script)) if runner == "mocha" else command
        return TestsEval(
            format=form,  # type: ignore[arg-type]
            command=(*command, *settings.test.options, *(() if settings.test.scope == "all" else files)),
            setup=_build(project, script),
        )


def _build(project: Project, script: str) -> tuple[tuple[str, ...], ...]:
    """What must be run before the tests: what the project's own script runs, or what makes a file that tests load."""
    scripts = _scripts(project)
    before = " ; ".join((scripts.get("pretest", ""), _before_tests(scripts.get("test", "")), _before_tests(script)))
    found = _BUILDS.search(before)
    if found is not None:
        return (("npm", "run", found[1]) if found[1] else ("tsc",),)
    return (("npm", "run", "build"),) if "build" in scripts and _loads_built_file(project) else ()


def _loads_built_file(project: Project) -> bool:
    """Whether test files load what the package offers, and that is not in the repository."""
    package = read_package(project)
    entry = next((package[key] for key in ("main", "module") if isinstance(package.get(key), str)), None)
    if entry is None or (path := str(PurePosixPath(entry))) in project.paths or f"{path}.js" in project.paths:
        return False
    folders = {PurePosixPath(test).parts[0] for test in project.tests}
    # By the package's own name, tests mean its source as often: test programs are told so in their settings.
    loads = re.compile(rf"['\"](?:\.\.?/)+{re.escape(PurePosixPath(path).parts[0])}\b")
    files = [one for one in project.paths if PurePosixPath(one).parts[0] in folders and _TEST_FILE.search(one)]
    return any(loads.search(project.text(one)) for one in files[:_MOST_READ])


def _before_tests(script: str) -> str:
    """What a test script does before it starts the test program."""
    found = re.search(rf"\b(?:{'|'.join(_COMMANDS)}|node\b[^;&|]*--test)\b", script)
    return script[: found.start()] if found else script


def _scripts(project: Project) -> dict[str, str]:
    scripts = read_package(project).get("scripts")
    return {name: text for name, text in scripts.items() if isinstance(text, str)} if isinstance(scripts, dict) else {}


def _test_scripts(project: Project) -> list[str]:
    """The scripts that run tests, the usual one first."""
    scripts = _scripts(project)
    names = sorted(
        (name for name in scripts if name.startswith(("test", "unit"))), key=lambda name: (name != "test", name)
    )
    return [scripts[name] for name in names]


def _test_script(project: Project, runner: str | None) -> str:
    """The script that starts the test program; else the usual one."""
    scripts = _test_scripts(project)
    started = [text for text in scripts if runner is not None and _starts(runner, text)]
    return next(iter((*started, *scripts)), "")


def _starts(runner: str, script: str) -> bool:
    pattern = r"\bnode\b[^;&|]*--test\b" if runner == "node" else rf"(?:^|[\s;&|/]){runner}(?:\s|$|;)"
    return re.search(pattern, script) is not None


def _runner(project: Project) -> str | None:
    """The test program: the one that the project's scripts start, or else one that it installs."""
    package = read_package(project)
    for script in _test_scripts(project):
        for name in ("node", *_COMMANDS):
            if _starts(name, script):
                return name
    installed = {**package.get("devDependencies", {}), **package.get("dependencies", {})}
    return next((name for name in _COMMANDS if name in installed), None)


def _node_command(script: str) -> tuple[str, ...]:
    """How the project's script starts node: with loaders and conditions, without the files."""
    found = re.search(
        r"\bnode\b((?:\s+(?:--(?:import|loader|require|experimental-[\w-]+|conditions|no-warnings|enable-source-maps)(?:=\S+|\s+(?!-)\S+)?|-r\s+\S+))*)",
        script,
    )
    return ("node", *shlex.split(found[1])) if found else ("node",)


def _mocha_options(script: str) -> tuple[str, ...]:
    found = re.search(r"\bmocha\b([^;&|]*)", script)
    words = shlex.split(found[1]) if found else []
    kept: list[str] = []
    for place, word in enumerate(words):
        if word in {"-r", "--require", "--import", "--loader", "-t", "--timeout", "--ui", "-u", "--opts", "--config"}:
            kept += words[place : place + 2]
        elif word.startswith(("--require=", "--import=", "--loader=", "--timeout=", "--ui=", "--exit")):
            kept.append(word)
    return tuple(kept)
