"""Rust: crates by `Cargo.lock`; the changed test programs, each reporting in JUnit's format."""

import re
from pathlib import PurePosixPath
from typing import Any, Final

import msgspec

from proctor.benchmarks.suites.format import SuiteEnvironmentFile, TestsEval
from proctor.core.user_files import parse_toml
from proctor.mining.languages.base import EnvironmentPlan, InstallFolder, Language, Project, SetupFailed
from proctor.mining.settings import MineSettings

_VARIABLES: Final = {
    "CARGO_HOME": "/deps/cargo",
    "CARGO_TARGET_DIR": "/deps/target",
    "CARGO_TERM_COLOR": "never",
    "CARGO_INCREMENTAL": "0",
}
# Cargo starts every test program through this one, which has it report to a file of its own.
_RUNNER: Final = r"""#!/bin/sh
name=$(basename "$1" | sed 's/-[0-9a-f]*$//')
if [ -z "$TEST_REPORT_DIR" ]; then exec "$@"; fi
mkdir -p "$TEST_REPORT_DIR"
RUSTC_BOOTSTRAP=1 "$@" -Z unstable-options --format junit > "$TEST_REPORT_DIR/$CARGO_PKG_NAME-$name.xml"
"""
# The compiler waits for itself when its clock is another one, by the library that mining preloads for this.
_COMPILER: Final = """#!/bin/sh
unset LD_PRELOAD
exec "$@"
"""
_PROGRAMS: Final = {"run-test": _RUNNER.encode(), "run-compiler": _COMPILER.encode()}
_RESOLVE: Final = """
cp -r /environment/files/. .
export CARGO_NET_RETRY=5 HOME=/tmp/home CARGO_RESOLVER_INCOMPATIBLE_RUST_VERSIONS=fallback
cargo generate-lockfile
cp Cargo.lock /deps/Cargo.lock
"""
# What is compiled of the project itself is removed again: it is of the change that was installed first.
_INSTALL: Final = """
cp -r /environment/files/. .
mkdir -p /deps/bin /deps/tree
cp /environment/run-test /environment/run-compiler /deps/bin
chmod +x /deps/bin/run-test /deps/bin/run-compiler
export CARGO_NET_RETRY=5 HOME=/tmp/home
cp Cargo.lock /deps/tree/Cargo.lock
cargo fetch
cargo test --workspace --no-run --offline || cargo test --no-run --offline || cargo build --offline || true
for name in @MEMBERS@; do cargo clean --offline --package "$name" || true; done
"""


class RustLanguage(Language):
    """Rust."""

    name = "rust"

    async def plan_environment(
        self, project: Project, settings: MineSettings, install: InstallFolder
    ) -> EnvironmentPlan:
        """The crates of `Cargo.lock`, compiled; without one, those that fit `Cargo.toml` now, which are kept."""
        names = [path for path in project.paths if PurePosixPath(path).name == "Cargo.toml"]
        if "Cargo.toml" not in names:
            raise SetupFailed(
                "it has no Cargo.toml at its top; say how it is set up in [setup] commands", code="no-manifest"
            )
        files = project.manifests((*names, "Cargo.lock", ".cargo/config.toml"))
        members = " ".join(sorted(filter(None, (_package_name(project, PurePosixPath(name).parent) for name in names))))
        plan = EnvironmentPlan(
            file=SuiteEnvironmentFile(
                schema_version="proctor.suite_environment@1",
                install=_INSTALL.strip().replace("@MEMBERS@", members),
                runtimes={"rust": settings.setup.runtimes.get("rust", "1")},
                variables={**_VARIABLES, **settings.setup.variables},
                image=settings.setup.image or "rust:1-bookworm",
            ),
            files={**{f"files/{name}": data for name, data in files.items()}, **_PROGRAMS},
        )
        if "Cargo.lock" in files:
            return plan
        resolution = msgspec.structs.replace(plan, file=msgspec.structs.replace(plan.file, install=_RESOLVE.strip()))
        lock = (await install(resolution) / "Cargo.lock").read_bytes()
        return msgspec.structs.replace(plan, files={**plan.files, "files/Cargo.lock": lock})

    def plan_tests(self, project: Project, settings: MineSettings) -> TestsEval:
        """The changed programs below `tests`; modules of tests in the source are run with the library."""
        packages: dict[str, None] = {}
        targets: dict[tuple[str, ...], None] = {}
        for path in project.tests:
            if path.endswith(".rs"):
                folder = _crate_folder(project, PurePosixPath(path))
                packages[_package_name(project, folder) or ""] = None
                targets[_target(project, folder, PurePosixPath(path))] = None
        if not targets:
            raise SetupFailed("changes no test file of Rust", code="no-test-module")
        words = [word for name in packages if name for word in ("--package", name)]
        words += [word for target in targets for word in target]
        return TestsEval(
            format="junit",
            command=(
                *("env", "TEST_REPORT_DIR={report}", "cargo", "test", "--offline", "--no-fail-fast"),
                *settings.test.options,
                *(("--workspace",) if settings.test.scope == "all" else words),
            ),
            variables={
                "RUSTC_WRAPPER": "/deps/bin/run-compiler",
                "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER": "/deps/bin/run-test",
                "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER": "/deps/bin/run-test",
            },
        )


def _manifest(project: Project, folder: PurePosixPath) -> dict[str, Any]:
    try:
        return parse_toml(project.text(str(folder / "Cargo.toml")))
    except ValueError:
        return {}


def _package_name(project: Project, folder: PurePosixPath) -> str | None:
    """The name of the package whose manifest is in a folder; None for a workspace that is no package itself."""
    name = _manifest(project, folder).get("package", {}).get("name")
    return name if isinstance(name, str) and re.fullmatch(r"[\w-]+", name) else None


def _crate_folder(project: Project, path: PurePosixPath) -> PurePosixPath:
    """The folder of the package that a file belongs to."""
    return next(folder for folder in path.parents if str(folder / "Cargo.toml") in project.paths)


def _target(project: Project, folder: PurePosixPath, path: PurePosixPath) -> tuple[str, ...]:
    """What of a package cargo runs for a test file."""
    inside = path.relative_to(folder)
    if inside.parts[0] != "tests":
        has_library = str(folder / "src/lib.rs") in project.paths or "lib" in _manifest(project, folder)
        return ("--lib",) if has_library else ("--bins",)
    for named in _manifest(project, folder).get("test", ()):
        start = PurePosixPath(str(named.get("path", f"tests/{named.get('name')}.rs")))
        if inside == start or (start.name == "main.rs" and start.parent in inside.parents):
            return "--test", str(named.get("name"))
    name = PurePosixPath(inside.parts[1]).stem
    if any(str(folder / "tests" / main) in project.paths for main in (f"{name}.rs", f"{name}/main.rs")):
        return "--test", name
    return ("--tests",)  # what several of them share
