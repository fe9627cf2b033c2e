"""Go: modules as `go.sum` has them, and `go test -json` over the packages of the changed tests."""

import shlex
from pathlib import PurePosixPath
from typing import Final

from proctor.benchmarks.suites.format import SuiteEnvironmentFile, TestsEval
from proctor.mining.languages.base import EnvironmentPlan, InstallFolder, Language, Project, SetupFailed
from proctor.mining.settings import MineSettings

_MANIFESTS: Final = frozenset(["go.mod", "go.sum", "go.work", "go.work.sum"])
_NOT_MODULES: Final = frozenset(["vendor", "testdata", "node_modules"])
_VARIABLES: Final = {
    "GOMODCACHE": "/deps/modules",
    "GOCACHE": "/deps/cache",
    "GOFLAGS": "-buildvcs=false",
    "GOTOOLCHAIN": "local",
    "CGO_ENABLED": "0",
}
# Warms the cache of compiled packages too: the standard library is compiled once, not for every test run.
_INSTALL: Final = """
cp -r /environment/files/. .
export HOME=/tmp/home
[ "$GOPROXY" != off ] || export GOPROXY=https://proxy.golang.org,direct
for module in @MODULES@; do (
  cd "$module" && go mod download || exit 1
  go test -count=1 -run '^$' ./... >/dev/null 2>&1 || go build ./... >/dev/null 2>&1 || true
) || [ "$module" != . ]; done
chmod -R u+w /deps
"""


class GoLanguage(Language):
    """Go."""

    name = "go"

    async def plan_environment(
        self,
        project: Project,
        settings: MineSettings,
        install: InstallFolder,
    ) -> EnvironmentPlan:
        """The modules that the `go.mod` files name, in the versions of `go.sum`."""
        names = [path for path in project.paths if _is_manifest(PurePosixPath(path))]
        modules = sorted({str(PurePosixPath(path).parent) for path in names if path.endswith("go.mod")})
        if not modules:
            raise SetupFailed("it has no go.mod; say how it is set up in [setup] commands", code="no-manifest")
        return EnvironmentPlan(
            file=SuiteEnvironmentFile(
                schema_version="proctor.suite_environment@1",
                install=_INSTALL.strip().replace("@MODULES@", shlex.join(modules)),
                runtimes={"go": settings.setup.runtimes.get("go", "1")},
                variables={**_VARIABLES, "GOPROXY": "off", **settings.setup.variables},
                image=settings.setup.image or "golang:1-bookworm",
            ),
            files={f"files/{name}": data for name, data in project.manifests(names).items()},
        )

    def plan_tests(self, project: Project, settings: MineSettings) -> TestsEval:
        """The packages of the changed test files, module by module."""
        packages: dict[str, set[str]] = {}
        for path in project.tests:
            if path.endswith("_test.go"):
                above = _module(project, PurePosixPath(path))
                packages.setdefault(str(above), set()).add(_package(PurePosixPath(path).parent.relative_to(above)))
        if not packages:
            raise SetupFailed("changes no test file of Go", code="no-test-module")
        commands = {}
        for module, touched in sorted(packages.items()):
            targets = ("./...",) if settings.test.scope == "all" else tuple(sorted(touched))
            commands[module] = ("go", "test", "-json", "-count=1", *settings.test.options, *targets)
        command = commands["."] if list(commands) == ["."] else ("sh", "-c", _script(commands))
        return TestsEval(format="go-test-json", command=command)


def _is_manifest(path: PurePosixPath) -> bool:
    return path.name in _MANIFESTS and not _NOT_MODULES & set(path.parts)


def _module(project: Project, path: PurePosixPath) -> PurePosixPath:
    """The folder of the module that a file belongs to."""
    found = next((folder for folder in path.parents if str(folder / "go.mod") in project.paths), None)
    if found is None:
        raise SetupFailed(f"{path} belongs to no module: there is no go.mod above it", code="no-manifest")
    return found


def _package(folder: PurePosixPath) -> str:
    return "." if str(folder) == "." else f"./{folder}"


def _script(commands: dict[str, tuple[str, ...]]) -> str:
    """A shell script that runs the tests of several modules, and fails when one of them does."""
    lines = [f"(cd {shlex.quote(module)} && {shlex.join(command)}) || code=1" for module, command in commands.items()]
    return "\n".join(("code=0", *lines, "exit $code"))
