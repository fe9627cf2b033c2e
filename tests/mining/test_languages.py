"""What tests need installed, and how they are run, by language."""

import json
from pathlib import Path

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


async def never(plan: EnvironmentPlan) -> Path:
    raise AssertionError(plan)


PACKAGES = {
    "vitest": ({"test": "vitest"}, "junit", "vitest run --reporter=junit --outputFile={report} test/a.test.ts"),
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
    made = project(tmp_path, {"Cargo.toml": ""}, ("tests/parse.rs", "tests/util/mod.rs"))
    assert plan_tests("rust", made, MineSettings()).command[-4:] == ("--test", "parse", "--test", "util")
    made = project(tmp_path, {"pom.xml": ""}, ("src/test/java/a/ParserTest.java", "src/test/java/a/Helper.java"))
    assert plan_tests("java", made, MineSettings()).command[-1] == "ParserTest"


def test_settings_come_before_what_a_language_would_do(tmp_path: Path) -> None:
    settings = MineSettings(
        setup=SetupSettings(commands=("make deps",)),
        test=TestSettings(command=("make", "check", "T={tests}", "{tests}"), format="tap", services=("start-db",)),
    )
    tests = plan_tests("cobol", project(tmp_path, {}, ("t/a.cbl",)), settings)
    assert tests.command == ("sh", "-c", 'start-db\nexec "$@"', "sh", "make", "check", "T={tests}", "t/a.cbl")


def test_a_language_that_nobody_knows_says_what_to_put_into_the_settings(tmp_path: Path) -> None:
    with pytest.raises(SetupFailed, match=r"\[setup\] commands"):
        plan_tests("cobol", project(tmp_path, {}), MineSettings())
