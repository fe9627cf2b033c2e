"""Go: modules as `go.sum` has them, and `go test -json` over the packages of the changed tests."""

from pathlib import PurePosixPath
from typing import Final

from proctor.benchmarks.suites.format import SuiteEnvironmentFile, TestsEval
from proctor.mining.languages.base import EnvironmentPlan, InstallFolder, Language, Project, SetupFailed
from proctor.mining.settings import MineSettings

_MANIFESTS: Final = ("go.mod", "go.sum", "go.work", "go.work.sum")
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
export GOPROXY="${GOPROXY:-https://proxy.golang.org,direct}" HOME=/tmp/home
go mod download
go test -count=1 -run '^$' ./... >/dev/null 2>&1 || go build ./... >/dev/null 2>&1 || true
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
        """The modules that `go.mod` names, in the versions of `go.sum`."""
        files = project.manifests(_MANIFESTS)
        if "go.mod" not in files:
            raise SetupFailed(
                "it has no go.mod at its top; say how it is set up in [setup] commands", code="no-manifest"
            )
        return EnvironmentPlan(
            file=SuiteEnvironmentFile(
                schema_version="proctor.suite_environment@1",
                install=_INSTALL.strip(),
                runtimes={"go": settings.setup.runtimes.get("go", "1")},
                variables={**_VARIABLES, "GOPROXY": "off", **settings.setup.variables},
                image=settings.setup.image or "golang:1-bookworm",
            ),
            files={f"files/{name}": data for name, data in files.items()},
        )

    def plan_tests(self, project: Project, settings: MineSettings) -> TestsEval:
        """The packages of the changed test files; of other files of tests, the packages above them."""
        packages = {_package(path) for path in project.tests if path.endswith("_test.go")}
        if not packages:
            raise SetupFailed("changes no test file of Go", code="no-test-module")
        targets = ("./...",) if settings.test.scope == "all" else tuple(sorted(packages))
        return TestsEval(
            format="go-test-json",
            command=("go", "test", "-json", "-count=1", *settings.test.options, *targets),
            setup=settings.test.build,
            timeout_seconds=settings.test.timeout_seconds,
        )


def _package(path: str) -> str:
    folder = str(PurePosixPath(path).parent)
    return "." if folder == "." else f"./{folder}"
