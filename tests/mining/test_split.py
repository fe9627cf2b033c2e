"""Which side of a task a path belongs to."""

import pytest

from proctor.mining.history import ChangedPath
from proctor.mining.split import PathRole, SplitRules, role_of, split_change

ROLES = {
    "src/app/models.py": PathRole.SOURCE,
    "tests/test_models.py": PathRole.TEST,
    "tests/data/big.json": PathRole.TEST,
    "app/models_test.go": PathRole.TEST,
    "pkg/testdata/golden.txt": PathRole.TEST,
    "src/__snapshots__/view.test.ts.snap": PathRole.TEST,
    "src/view.spec.tsx": PathRole.TEST,
    "src/main/java/a/Parser.java": PathRole.SOURCE,
    "src/test/java/a/ParserTest.java": PathRole.TEST,
    "numpy/testing/utils.py": PathRole.SOURCE,
    "src/latest.py": PathRole.SOURCE,
    "contest/solve.py": PathRole.SOURCE,
    "package-lock.json": PathRole.LOCK,
    "Cargo.lock": PathRole.LOCK,
    "dist/app.min.js": PathRole.GENERATED,
    "vendor/lib/x.go": PathRole.GENERATED,
    "api/v1/types.pb.go": PathRole.GENERATED,
    "CHANGELOG.md": PathRole.DOCUMENT,
    "docs/conf.py": PathRole.DOCUMENT,
    "pyproject.toml": PathRole.OTHER,
    ".github/workflows/ci.yml": PathRole.OTHER,
}


@pytest.mark.parametrize(("path", "role"), ROLES.items())
def test_a_path_has_the_role_that_its_name_says(path: str, role: PathRole) -> None:
    assert role_of(path) is role


def test_the_users_patterns_come_first() -> None:
    rules = SplitRules(tests=("checks/**",), source=("tests/support/**",), generated=("*_gen.py",))
    assert role_of("checks/one.py", rules) is PathRole.TEST
    assert role_of("tests/support/server.py", rules) is PathRole.SOURCE
    assert role_of("app/models_gen.py", rules) is PathRole.GENERATED


def test_a_change_is_of_the_language_of_most_of_its_source_and_all_but_its_tests_is_the_oracle() -> None:
    paths = [
        ChangedPath(path="a.go", status="M", added=3),
        ChangedPath(path="b.py", status="M", added=30),
        ChangedPath(path="b_test.py", status="M", added=90),
        ChangedPath(path="CHANGES.md", status="M", added=1),
    ]
    split = split_change(paths)
    assert split.language == "python"
    assert [path.path for path in split.oracle] == ["CHANGES.md", "a.go", "b.py"]
    assert [path.path for path in split.tests] == ["b_test.py"]
    assert split.source_lines == 33


def test_the_language_is_one_that_the_change_has_tests_in() -> None:
    paths = (
        ChangedPath(path="locale/de.js", status="M", added=900),
        ChangedPath(path="calc.py", status="M", added=2),
        ChangedPath(path="tests/test_calc.py", status="M", added=5),
    )
    assert split_change(paths).language == "python"
    assert split_change(paths[:2]).language == "javascript"
