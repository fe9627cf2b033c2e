"""What tests need installed, and how they are run, by language."""

import json
import os
import shutil
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from proctor.benchmarks.python_envs import Interpreter
from proctor.mining.languages import Project, SetupFailed, plan_environment, plan_tests
from proctor.mining.languages.base import EnvironmentPlan
from proctor.mining.languages.python import choose_python, is_test_module
from proctor.mining.settings import MineSettings, SetupSettings, TestSettings


def project(folder: Path, files: dict[str, str], tests: tuple[str, ...] = (), date: str = "2024-05-20") -> Project:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return Project(tree=folder, paths=tuple(sorted(files)), tests=tests, date=date)


def pythons(*versions: str) -> tuple[Interpreter, ...]:
    return tuple(Interpreter(executable=f"/python{version}", version=version, prefix="/") for version in versions)


@pytest.mark.parametrize(
    ("packaging", "date", "version"),
    [
        ("", "2024-05-20", "3.12"),
        ("", "2023-11-01", "3.11"),  # 3.12 is a month old
        ("requires-python = '>=3.8,<3.10'", "2024-05-20", "3.9"),
        ('python = "^3.8"', "2021-01-01", "3.8"),
        ("python_requires='>=3.6'", "2019-02-01", "3.8"),  # nothing of that time is here
        ("'Programming Language :: Python :: 3.9'", "2024-05-20", "3.9"),
    ],
)
def test_the_interpreter_is_the_newest_that_the_project_and_the_time_allow(
    tmp_path: Path, packaging: str, date: str, version: str
) -> None:
    made = project(tmp_path, {"setup.py": packaging}, date=date)
    assert choose_python(made, pythons("3.8", "3.9", "3.11", "3.12", "3.13")) == version


def test_a_python_that_is_not_here_is_named(tmp_path: Path) -> None:
    with pytest.raises(SetupFailed, match=r"needs Python <3\.7"):
        choose_python(project(tmp_path, {"setup.cfg": "python_requires = <3.7"}), pythons("3.11"))


def test_pytest_collects_what_the_project_says_and_what_is_usual() -> None:
    assert is_test_module("tests/test_a.py")
    assert is_test_module("a_test.py")
    assert not is_test_module("tests/conftest.py")
    assert not is_test_module("tests/helpers.py")
    assert is_test_module("checks/check_a.py", 'python_files = ["check_*.py"]')


def test_python_tests_are_run_by_the_reporter_with_the_projects_configuration(tmp_path: Path) -> None:
    files = {"pyproject.toml": "[tool.pytest.ini_options]\naddopts = '-n 4'\n", "src/a.py": "", "tests/test_a.py": ""}
    tests = plan_tests("python", project(tmp_path, files, ("tests/test_a.py", "tests/data.json")), MineSettings())
    assert (tests.format, tests.arguments, tests.config_path) == ("pytest", ("tests/test_a.py",), "pyproject.toml")
    assert tests.options == ("-n", "0")
    assert tests.paths == (".", "src")


def resolution(folder: Path) -> Callable[[EnvironmentPlan], Awaitable[Path]]:
    """In place of an installation: what it would leave."""

    async def resolved(_: EnvironmentPlan) -> Path:
        (folder / "date.txt").write_text("2024-05-01\n")
        (folder / "requirements.txt").write_text("")
        return folder

    return resolved


async def test_no_version_has_the_day_of_its_build(tmp_path: Path) -> None:
    setup = {"setup.py": "setup()", "setup.cfg": "[egg_info]\ntag_build = .dev\ntag_date = true\n[aliases]\n"}
    plan = await plan_environment("python", project(tmp_path, setup), MineSettings(), resolution(tmp_path))
    assert plan.files["files/setup.cfg"] == b"[egg_info]\n[aliases]\n"


@pytest.mark.parametrize(("date", "overrides"), [("2015-12-16", 3), ("2018-06-01", 0)])
async def test_changes_from_before_the_oldest_pytest_that_reports_run_with_it(
    tmp_path: Path, date: str, overrides: int
) -> None:
    plans = []

    async def resolved(plan: EnvironmentPlan) -> Path:
        plans.append(plan)
        return await resolution(tmp_path)(plan)

    files = {"setup.py": "setup()", "requirements.txt": "pytest==2.8.1\n"}
    settings = MineSettings(setup=SetupSettings(python="3.6"))
    await plan_environment("python", project(tmp_path, files, date=date), settings, resolved)
    (plan,) = plans
    attempts = [line for line in plan.file.install.splitlines() if "resolve 20" in line and "requirements.txt" in line]
    assert attempts
    assert all(("--override /environment/pytest.in" in line) == bool(overrides) for line in attempts)
    assert len(plan.files.get("pytest.in", b"").splitlines()) == overrides


async def test_extension_modules_that_are_compiled_from_other_sources_are_another_environment(tmp_path: Path) -> None:
    setup = "setup(ext_modules=[Extension('fast', ['fast.c'])])"
    plans = [
        await plan_environment(
            "python",
            project(tmp_path, {"setup.py": text, "fast.c": code}),
            MineSettings(),
            resolution(tmp_path),
        )
        for text, code in ((setup, "1"), (setup, "2"), ("setup()", "1"), ("setup()", "2"))
    ]
    assert plans[0].files != plans[1].files
    assert plans[2] == plans[3]


async def never(plan: EnvironmentPlan) -> Path:
    raise AssertionError(plan)


PACKAGES = {
    "vitest": (
        {"test": "vitest"},
        "junit",
        "vitest run --reporter=default --reporter=junit --outputFile.junit={report}",
    ),
    "mocha": ({"test": "mocha -r ts-node/register"}, "junit", "mocha --reporter xunit --reporter-option"),
    "ava": ({"test": "xo && ava"}, "tap", "ava --tap test/a.test.ts"),
    "node": (
        {"test": "node --import=tsx --test test/*.ts && tsc"},
        "tap",
        "node --import=tsx --test --test-reporter=tap",
    ),
}


@pytest.mark.parametrize(("scripts", "form", "command"), PACKAGES.values(), ids=PACKAGES)
async def test_javascript_tests_are_run_by_the_projects_own_program(
    tmp_path: Path, scripts: dict[str, str], form: str, command: str
) -> None:
    made = project(
        tmp_path, {"package.json": json.dumps({"scripts": scripts})}, ("test/a.test.ts", "test/fixtures/b.ts")
    )
    tests = plan_tests("javascript", made, MineSettings())
    assert tests.format == form
    assert " ".join(tests.command).startswith(command)
    assert tests.command[-1] == "test/a.test.ts"
    assert tests.setup == ()
    environment = await plan_environment("javascript", made, MineSettings(), never)
    assert "--before=2024-05-01" in environment.file.install


async def test_a_lock_file_decides_and_a_build_before_the_tests_is_run(tmp_path: Path) -> None:
    package = json.dumps({"scripts": {"test": "npm run build && mocha"}})
    made = project(tmp_path, {"package.json": package, "package-lock.json": "{}"}, ("test/a.js",))
    assert plan_tests("javascript", made, MineSettings()).setup == (("npm", "run", "build"),)
    assert "npm ci" in (await plan_environment("javascript", made, MineSettings(), never)).file.install


def test_go_rust_and_java_run_what_the_change_touches(tmp_path: Path) -> None:
    made = project(tmp_path, {"go.mod": "module x\n"}, ("a_test.go", "pkg/b/b_test.go", "pkg/b/testdata/x"))
    assert plan_tests("go", made, MineSettings()).command[-2:] == (".", "./pkg/b")
    made = project(tmp_path, {"Cargo.toml": "", "tests/parse.rs": ""}, ("tests/parse.rs", "tests/parse/deep.rs"))
    assert plan_tests("rust", made, MineSettings()).command[-2:] == ("--test", "parse")
    made = project(tmp_path, {"pom.xml": ""}, ("src/test/java/a/ParserTest.java", "src/test/java/a/Helper.java"))
    command = plan_tests("java", made, MineSettings()).command
    assert command[-1] == "ParserTest"
    assert "--projects" not in command[2]


@pytest.mark.skipif(shutil.which("go") is None, reason="needs Go")
@pytest.mark.parametrize(("required", "code"), [("", 0), ("require example.com/nowhere v1.0.0\n", 1)])
async def test_go_is_not_installed_where_a_module_cannot_be_fetched(required: str, code: int, tmp_path: Path) -> None:
    made = project(tmp_path / "files", {"go.mod": f"module x\n{required}"}, ("a_test.go",))
    script = (await plan_environment("go", made, MineSettings(), never)).file.install
    for place, name in (("/environment/files", "files"), ("/deps", "deps")):
        script = script.replace(place, str(tmp_path / name))
    (tmp_path / "deps").mkdir()
    variables = {**os.environ, "GOPROXY": "file:///nowhere", "GOMODCACHE": str(tmp_path / "deps"), "GOFLAGS": ""}
    done = subprocess.run(["bash", "-c", f"set -e\n{script}"], cwd=tmp_path, env=variables, check=False)
    assert done.returncode == code


async def test_maven_runs_the_modules_of_the_changed_tests_and_what_they_need(tmp_path: Path) -> None:
    files = {"pom.xml": "", "core/pom.xml": "", "other/pom.xml": ""}
    made = project(tmp_path, files, ("core/src/test/java/a/ParserTest.java", "core/src/test/resources/a.txt"))
    chosen = "--also-make --projects core "
    assert chosen in plan_tests("java", made, MineSettings()).command[2]
    assert (await plan_environment("java", made, MineSettings(), never)).file.install.count(chosen) == 2
    everything = MineSettings(test=TestSettings(scope="all"))
    assert "--projects" not in plan_tests("java", made, everything).command[2]


def test_the_packages_and_modules_of_a_workspace_are_named_by_their_manifests(tmp_path: Path) -> None:
    manifest = '[package]\nname = "calc-core"\n[[test]]\nname = "all"\npath = "tests/all/main.rs"\n'
    files = {"Cargo.toml": "[workspace]\nmembers = ['core']\n", "core/Cargo.toml": manifest, "core/src/lib.rs": ""}
    made = project(tmp_path, files, ("core/tests/all/sums.rs", "core/tests/common/mod.rs", "core/src/tests.rs"))
    command = plan_tests("rust", made, MineSettings()).command
    assert command[-6:] == ("--package", "calc-core", "--test", "all", "--tests", "--lib")
    made = project(tmp_path, {"go.mod": "", "api/go.mod": "", "api/v1/a.go": ""}, ("b_test.go", "api/v1/a_test.go"))
    command = plan_tests("go", made, MineSettings()).command
    assert "(cd . && go test -json -count=1 .)" in command[-1]
    assert "(cd api && go test -json -count=1 ./v1)" in command[-1]


LOCKS = {
    "pnpm-lock.yaml": ("lockfileVersion: '6.0'\n", "", "pnpm@8 install"),
    "yarn.lock": ("# yarn lockfile v1\n", "", "yarn@1.22.22 install"),
    "yarn.lock ": ("__metadata:\n  version: 8\n", "yarn@4.1.0", "@yarnpkg/cli-dist@4.1.0 yarn install --immutable"),
    "package-lock.json": ("{}", "", "npm ci"),
}


@pytest.mark.parametrize(("lock", "text", "manager", "command"), [(k.strip(), *v) for k, v in LOCKS.items()])
async def test_the_lock_file_says_which_package_manager_installs(
    tmp_path: Path, lock: str, text: str, manager: str, command: str
) -> None:
    package = {"scripts": {"test": "jest"}, "packageManager": manager, "workspaces": ["packages/*"]}
    files = {"package.json": json.dumps(package), "packages/a/package.json": "{}", lock: text}
    plan = await plan_environment("javascript", project(tmp_path, files), MineSettings(), never)
    assert command in plan.file.install
    assert {f"files/{name}" for name in files} == set(plan.files)


def test_what_tests_load_and_the_repository_has_not_is_built_first(tmp_path: Path) -> None:
    scripts = {"test": "npm run test-node", "test-node": "c8 mocha --require ./setup.js test/*.js", "build": "esbuild"}
    package = {"name": "calc", "main": "./index.js", "scripts": scripts}
    files = {"package.json": json.dumps(package), "test/a.js": "import * as calc from '../index.js';\n"}
    tests = plan_tests("javascript", project(tmp_path, files, ("test/a.js",)), MineSettings())
    assert tests.setup == (("npm", "run", "build"),)
    assert tests.command[-3:] == ("--require", "./setup.js", "test/a.js")
    tests = plan_tests("javascript", project(tmp_path, {**files, "index.js": ""}, ("test/a.js",)), MineSettings())
    assert tests.setup == ()


DOCKERFILE = """FROM python:3.9 AS base
COPY requirements.txt requirements/*.txt /app/
RUN --mount=type=cache,target=/root/.cache \\
    pip install -r /app/requirements.txt
COPY . /app
RUN make
"""


async def test_containers_are_made_from_the_image_that_the_repository_describes(tmp_path: Path) -> None:
    files = {"requirements.txt": "a\n", "requirements/ci.txt": "b\n", "calc.cbl": "", "Dockerfile": DOCKERFILE}
    settings = MineSettings(test=TestSettings(command=("make", "check")))
    plan = await plan_environment("other", project(tmp_path, files), settings, never, in_image=True)
    assert set(plan.files) == {"image/Dockerfile", "image/requirements.txt", "image/requirements/ci.txt"}
    built = plan.files["image/Dockerfile"].decode()
    assert "pip install" in built
    assert "--mount" not in built
    assert "make" not in built
    with pytest.raises(SetupFailed, match="--runner docker"):
        await plan_environment("other", project(tmp_path, files), settings, never)
    image = {"go.mod": "module x\n", ".devcontainer/devcontainer.json": '{\n// what\n"image": "go-dev:1",\n}'}
    plan = await plan_environment("go", project(tmp_path, image), MineSettings(), never, in_image=True)
    assert plan.file.image == "go-dev:1"
    own = MineSettings(setup=SetupSettings(dockerfile="ci/Dockerfile"))
    with pytest.raises(SetupFailed, match="there is no ci/Dockerfile"):
        await plan_environment("go", project(tmp_path, image), own, never, in_image=True)


def test_settings_come_before_what_a_language_would_do(tmp_path: Path) -> None:
    settings = MineSettings(
        setup=SetupSettings(commands=("make deps",)),
        test=TestSettings(command=("make", "check", "T={tests}", "{tests}"), format="tap", services=("start-db",)),
    )
    tests = plan_tests("cobol", project(tmp_path, {}, ("t/a.cbl",)), settings)
    assert tests.command == ("make", "check", "T={tests}", "t/a.cbl")
    assert tests.services == ("start-db",)


def test_what_the_settings_say_of_tests_holds_for_every_test_program(tmp_path: Path) -> None:
    said = {"build": (("make",),), "timeout_seconds": 7.0, "services": ("start-db",)}
    made = project(tmp_path, {"go.mod": "module x\n", "a_test.go": "", "tests/test_a.py": ""}, ("a_test.go",))
    python = msgspec.structs.replace(made, tests=("tests/test_a.py",))
    own = {"command": ("make", "check"), "format": "exit-code"}
    for language, one, more in (("go", made, {}), ("python", python, {}), ("other", made, own)):
        tests = plan_tests(language, one, MineSettings(test=TestSettings(**said, **more)))  # type: ignore[arg-type]
        assert (tests.setup, tests.timeout_seconds, tests.services) == tuple(said.values())


def test_a_language_that_nobody_knows_says_what_to_put_into_the_settings(tmp_path: Path) -> None:
    with pytest.raises(SetupFailed, match=r"\[setup\] commands"):
        plan_tests("cobol", project(tmp_path, {}), MineSettings())
