"""Rust: crates by `Cargo.lock`, or as of a day; the changed integration tests, each reporting in JUnit's format."""

import re
from pathlib import PurePosixPath
from typing import Final

from proctor.benchmarks.suites.format import SuiteEnvironmentFile, TestsEval
from proctor.mining.languages.base import EnvironmentPlan, InstallFolder, Language, Project, SetupFailed, month_start
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
RUSTC_BOOTSTRAP=1 "$@" -Z unstable-options --format junit > "$TEST_REPORT_DIR/$name.xml"
"""
_INSTALL: Final = """
cp -r /environment/files/. .
mkdir -p /deps/bin
cp /environment/run-test /deps/bin/run-test
chmod +x /deps/bin/run-test
export CARGO_NET_RETRY=5 HOME=/tmp/home
[ -e Cargo.lock ] || cargo generate-lockfile
cp Cargo.lock /deps/Cargo.lock
mkdir -p /deps/tree
cp Cargo.lock /deps/tree/Cargo.lock
cargo fetch
cargo test --no-run --offline || cargo build --offline || true
"""


class RustLanguage(Language):
    """Rust."""

    name = "rust"

    async def plan_environment(
        self,
        project: Project,
        settings: MineSettings,
        install: InstallFolder,
    ) -> EnvironmentPlan:
        """The crates of `Cargo.lock`, compiled; without one, those that fit `Cargo.toml` when it is installed."""
        manifests = [path for path in project.paths if PurePosixPath(path).name == "Cargo.toml"]
        if "Cargo.toml" not in manifests:
            raise SetupFailed(
                "it has no Cargo.toml at its top; say how it is set up in [setup] commands", code="no-manifest"
            )
        files = project.manifests((*manifests, "Cargo.lock", "rust-toolchain.toml", ".cargo/config.toml"))
        files.pop("rust-toolchain.toml", None)
        return EnvironmentPlan(
            file=SuiteEnvironmentFile(
                schema_version="proctor.suite_environment@1",
                install=_INSTALL.strip(),
                runtimes={"rust": settings.setup.runtimes.get("rust", "1")},
                variables={**_VARIABLES, **settings.setup.variables},
                image=settings.setup.image or "rust:1-bookworm",
                date=None if "Cargo.lock" in files else month_start(project.date),
            ),
            files={**{f"files/{name}": data for name, data in files.items()}, "run-test": _RUNNER.encode()},
        )

    def plan_tests(self, project: Project, settings: MineSettings) -> TestsEval:
        """The changed programs below `tests`; modules of tests in the source are run with the library."""
        selected: list[str] = []
        for path in project.tests:
            found = re.match(r"^(?:(.+)/)?tests/(\w+)(?:\.rs|/)", path)
            if found is not None and path.endswith(".rs"):
                selected += [*(("--package", PurePosixPath(found[1]).name) if found[1] else ()), "--test", found[2]]
            elif path.endswith(".rs") and "src" in PurePosixPath(path).parts:
                selected.append("--lib")
        if not selected:
            raise SetupFailed("changes no test file of Rust", code="no-test-module")
        target = [] if settings.test.scope == "all" else list(dict.fromkeys(_pairs(selected)))
        words = [word for pair in target for word in pair]
        return TestsEval(
            format="junit",
            command=(
                "env",
                "TEST_REPORT_DIR={report}",
                "cargo",
                "test",
                "--offline",
                "--no-fail-fast",
                *settings.test.options,
                *words,
            ),
            variables={
                "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER": "/deps/bin/run-test",
                "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER": "/deps/bin/run-test",
            },
            setup=settings.test.build,
            timeout_seconds=settings.test.timeout_seconds,
        )


def _pairs(words: list[str]) -> list[tuple[str, ...]]:
    """Options with their values: each pair once."""
    pairs: list[tuple[str, ...]] = []
    place = 0
    while place < len(words):
        width = 1 if words[place] == "--lib" else 2
        pairs.append(tuple(words[place : place + width]))
        place += width
    return pairs
