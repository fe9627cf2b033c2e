"""JavaScript and TypeScript: packages by lock files; vitest, jest, mocha, ava, tape, tap, or node's own runner."""

import json
import re
import shlex
from typing import Any, Final

from proctor.benchmarks.suites.format import SuiteEnvironmentFile, TestsEval
from proctor.mining.languages.base import EnvironmentPlan, InstallFolder, Language, Project, SetupFailed, month_start
from proctor.mining.settings import MineSettings

_LOCKS: Final = ("package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "yarn.lock")
_OTHERS: Final = (".npmrc", "pnpm-workspace.yaml", ".yarnrc", ".yarnrc.yml")
_TEST_FILE: Final = re.compile(r"\.[cm]?[jt]sx?$")
_HELPERS: Final = re.compile(
    r"(?:^|/)(?:helpers?|fixtures?|__fixtures__|__mocks__|_[^/]*|utils?|setup)(?:[./]|$)|\.d\.ts$"
)
# Programs that run tests, the first that a project has; each with its own way to report.
_COMMANDS: Final = {
    "vitest": (("vitest", "run", "--reporter=junit", "--outputFile={report}"), "junit"),
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
        _package(project)
        files = project.manifests(("package.json", *_LOCKS, *_OTHERS))
        date = project.date
        lock = next((name for name in _LOCKS if name in files), None)
        before = f"--before={month_start(date)} || npm install --before={date}"
        common = "--no-audit --no-fund --legacy-peer-deps --ignore-scripts"
        commands = {
            None: f"npm install --no-package-lock {common} {before} --no-package-lock {common}",
            "package-lock.json": f"npm ci {common}",
            "npm-shrinkwrap.json": f"npm ci {common}",
            "pnpm-lock.yaml": "npx --yes pnpm@9 install --frozen-lockfile --ignore-scripts",
            "yarn.lock": "npx --yes yarn@1.22.22 install --frozen-lockfile --ignore-scripts --ignore-engines",
        }
        script = [
            "export HOME=/tmp/home; mkdir -p $HOME",
            "cp -r /environment/files/. .",
            commands[lock],
            # Some packages fetch or build a program of theirs after they are installed.
            "npm rebuild --ignore-scripts=false >/dev/null 2>&1 || true",
        ]
        if _runner(project) == "jest":
            script.append(f"npm install --no-save --no-package-lock {common} {_JEST_JUNIT}")
        script += ["test -d node_modules || mkdir node_modules", "cp -a node_modules /deps/node_modules"]
        return EnvironmentPlan(
            file=SuiteEnvironmentFile(
                schema_version="proctor.suite_environment@1",
                install="\n".join(script),
                runtimes={"node": settings.setup.runtimes.get("node", "20")},
                variables={
                    "PATH": "/node_modules/.bin",
                    "CI": "1",
                    "NODE_PATH": "/node_modules",
                    **settings.setup.variables,
                },
                shown={"node_modules": "/node_modules"},
                image=settings.setup.image or "node:20-bookworm",
                date=None if lock else month_start(date),
            ),
            files={f"files/{name}": data for name, data in files.items()},
        )

    def plan_tests(self, project: Project, settings: MineSettings) -> TestsEval:
        """The changed test files, by the project's own test program."""
        files = [path for path in project.tests if _TEST_FILE.search(path) and not _HELPERS.search(path)]
        if not files:
            raise SetupFailed("changes no test file that a test program would run", code="no-test-module")
        runner = _runner(project)
        script = _scripts(project).get("test", "")
        built = _BUILDS.search(_before_tests(script))
        setup: tuple[tuple[str, ...], ...] = settings.test.build
        if built is not None and not setup:
            setup = (("npm", "run", built[1]) if built[1] else ("tsc",),)
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
            command=(*command, *files),
            setup=setup,
            timeout_seconds=settings.test.timeout_seconds,
        )


def _before_tests(script: str) -> str:
    """What a test script does before it starts the test program."""
    found = re.search(rf"\b(?:{'|'.join(_COMMANDS)}|node\b[^;&|]*--test)\b", script)
    return script[: found.start()] if found else script


def _package(project: Project) -> dict[str, Any]:
    data = project.read("package.json")
    if data is None:
        raise SetupFailed("it has no package.json at its top", code="no-manifest")
    try:
        document = json.loads(data)
    except ValueError as error:
        raise SetupFailed("its package.json is broken", code="no-manifest") from error
    return document if isinstance(document, dict) else {}


def _scripts(project: Project) -> dict[str, str]:
    scripts = _package(project).get("scripts")
    return {name: text for name, text in scripts.items() if isinstance(text, str)} if isinstance(scripts, dict) else {}


def _runner(project: Project) -> str | None:
    """The test program: the one that the project's scripts start, or else one that it installs."""
    package = _package(project)
    scripts = " ; ".join(text for name, text in _scripts(project).items() if name.startswith(("test", "unit")))
    if re.search(r"\bnode\b[^;&|]*--test\b", scripts):
        return "node"
    for name in _COMMANDS:
        if re.search(rf"(?:^|[\s;&|/]){name}(?:\s|$|;)", scripts):
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
