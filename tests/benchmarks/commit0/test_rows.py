"""The published rows, and what is made of them."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.commit0.world import IDS, TASK, make_origin
from paths import SAMPLES, sample_data, shared_data
from proctor.benchmarks.commit0.benchmark import image_of, instruction
from proctor.benchmarks.commit0.installed_copies import find_copies, installed_copy_paths, signature_lines
from proctor.benchmarks.commit0.library import protected_test_patterns
from proctor.benchmarks.commit0.rows import LITE, Commit0Row, in_split
from proctor.benchmarks.commit0.source import SOURCE, load_rows
from proctor.benchmarks.commit0.venvs import _container_only_commands, _install_steps
from proctor.benchmarks.python_envs import Interpreter
from proctor.core.errors import InvalidData
from proctor.runner.request import current_machine


@pytest.fixture(scope="module", params=SAMPLES)
def rows(request: pytest.FixtureRequest) -> list[Commit0Row]:
    return load_rows(request.param("commit0", "commit0_combined.json"))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def by_name(rows: list[Commit0Row], name: str) -> Commit0Row:
    return next(row for row in rows if row.name == name)


@pytest.mark.parametrize(
    ("data", "count", "versions", "plain"),
    [
        pytest.param(sample_data, 18, {"3.10": 12, "3.11": 1, "3.12": 5}, 15, id="our-sample"),
        pytest.param(shared_data, 54, {"3.10": 36, "3.11": 1, "3.12": 17}, 43, id="real-sample"),
    ],
)
def test_the_54_rows_load_and_16_are_lite(
    data: Callable[..., Path], count: int, versions: dict[str, int], plain: int
) -> None:
    rows = load_rows(data("commit0", "commit0_combined.json"))
    assert (len(rows), len(LITE)) == (count, 16)
    assert len(in_split(rows, "all")) == count
    lite = in_split(rows, "lite")
    assert len(lite) == 16
    assert [row.problems() for row in lite] == [[]] * 16
    assert Counter(row.setup.python for row in rows) == versions
    assert sum(row.test.test_cmd == "pytest" for row in rows) == plain


async def test_rows_without_a_commit_or_tests_are_named_and_not_used(cache: Path, tmp_path: Path) -> None:
    origin = make_origin(tmp_path / "origin")
    (row,) = json.loads((origin / "rows.json").read_bytes())
    strange = {**row, "instance_id": "commit-0/strange", "setup": {**row["setup"], "python": "3.99"}}
    more = [{**row, "instance_id": "commit-0/none", "repo": "commit-0/none", "base_commit": ""}]
    more += [{**row, "instance_id": "commit-0/unlisted", "repo": "commit-0/unlisted"}]
    (origin / "rows.json").write_text(json.dumps([row, strange, *more]))
    said: list[str] = []
    got = await SOURCE.fetch("all", origin, said.append)
    assert (got.tasks, got.origin, said) == (4, str(origin), ["fetching abacus", "fetching abacus"])
    opened = SOURCE.open("all")
    assert [task.id for task in opened.tasks()] == [TASK, "commit-0/strange"]
    usable, refused = (opened.missing_requirement(task, current_machine(), "local") for task in opened.tasks())
    assert usable is None
    assert "it needs Python 3.99" in (refused or "")
    assert {bad.task_id: bad.problems for bad in opened.invalid_tasks()} == {
        "commit-0/none": ("the row has no base_commit", "there is no list of its tests"),
        "commit-0/unlisted": ("there is no list of its tests",),
    }
    again = await SOURCE.fetch("all", origin, said.append)
    assert again.digest == got.digest


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"setup": None}, "not a row of Commit0"),
        ({"test": {"test_cmd": "pytest"}}, "not a row of Commit0"),
        (None, "is there twice"),
    ],
)
def test_broken_rows_are_refused_with_their_place(tmp_path: Path, change: dict[str, Any] | None, said: str) -> None:
    origin = make_origin(tmp_path / "origin")
    (row,) = json.loads((origin / "rows.json").read_bytes())
    (origin / "rows.json").write_text(json.dumps([row, row] if change is None else [{**row, **change}]))
    with pytest.raises(InvalidData, match=said) as raised:
        load_rows(origin / "rows.json")
    assert str(origin) in str(raised.value)


async def test_trees_come_from_a_folder_of_clones_where_there_is_one(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = make_origin(tmp_path / "origin")
    clones = tmp_path / "clones"
    (clones / TASK).parent.mkdir(parents=True)
    (origin / "repos" / "abacus").rename(clones / TASK)
    monkeypatch.setenv("PROCTOR_REPOSITORIES", str(clones))
    await SOURCE.fetch("all", origin, lambda _: None)
    opened = SOURCE.open("all")
    (task,) = opened.tasks()
    oracle = opened.oracle(task)
    assert oracle is not None
    assert b"+    return sum(column)" in oracle.content


def test_the_environment_of_the_row_is_installed(rows: list[Commit0Row]) -> None:
    parsel, babel = by_name(rows, "parsel"), by_name(rows, "babel")
    assert list(_container_only_commands(parsel.setup)) == ["apt-get update", "apt-get install clang"]
    tools = "pip install -U pytest pytest-cov coverage pytest-json-report"
    assert list(_install_steps(parsel.setup)) == ["pip install -r tests/requirements.txt", "pip install -e .", tools]
    assert babel.setup.pre_install == [next(_install_steps(babel.setup))]
    assert image_of(by_name(rows, "web3.py")) == "wentingzhao/web3.py:v0"
    assert by_name(rows, "web3.py").ids_file == "web3-py.bz2"


def test_the_places_of_tests_are_protected_and_the_library_is_not(rows: list[Commit0Row]) -> None:
    simpy = protected_test_patterns(
        by_name(rows, "simpy"), ["tests/test_a.py::test_b", "tests/sub/test_c.py::D::test_e"]
    )
    assert simpy == ("/tests/sub/test_c.py", "/tests/test_a.py", "/tests/")
    chardet = protected_test_patterns(by_name(rows, "chardet"), ["test.py::test_all"])
    assert chardet == ("/test.py",)
    # The tests of these lie within the package that is to be written.
    networkx = protected_test_patterns(by_name(rows, "networkx"), ["networkx/algorithms/tests/test_cuts.py::test_x"])
    assert networkx == ("/networkx/algorithms/tests/test_cuts.py", "/networkx/algorithms/tests/")
    voluptuous = protected_test_patterns(by_name(rows, "voluptuous"), ["voluptuous/tests/tests.py::test_x"])
    assert voluptuous == ("/voluptuous/tests/tests.py", "/voluptuous/tests/")


def test_the_instruction_says_what_is_asked_and_not_where_the_oracle_is(rows: list[Commit0Row]) -> None:
    row = by_name(rows, "pyjwt")
    said = instruction(row)
    assert "`jwt`" in said
    assert "`pytest tests/`" in said
    assert "spec.pdf.bz2" in said
    assert row.original_repo.partition("/")[0] not in said


def test_copies_of_the_library_on_this_machine_are_found(tmp_path: Path, rows: list[Commit0Row]) -> None:
    site = tmp_path / "lib/python3.10/site-packages"
    for name in ("jinja2", "jinja2-3.1.dist-info", "Jinja2-2.0.egg-info", "markupsafe", "pip", "ensure"):
        (site / name).mkdir(parents=True)
    (site.parent / "ensurepip").mkdir()
    python = Interpreter(executable="", version="3.10", prefix=str(tmp_path))
    own = [
        Path(place) for place in installed_copy_paths(by_name(rows, "jinja"), python) if place.startswith(str(tmp_path))
    ]
    assert sorted(place.name for place in own) == [
        *("Jinja2-2.0.egg-info", "ensurepip", "jinja2", "jinja2-3.1.dist-info", "pip")
    ]


def test_a_package_that_carries_the_library_is_a_leak_and_common_lines_are_not(tmp_path: Path) -> None:
    origin = make_origin(tmp_path / "origin")
    (row,) = load_rows(origin / "rows.json")
    body = "".join(f"    value_of_column_{number} = compute(row, {number})\n" for number in range(40))
    oracle, base, packages = (tmp_path / name for name in ("oracle", "base", "packages"))
    for tree, text in ((oracle, f"def f(row):\n{body}"), (base, "def f(row):\n    pass\n")):
        (tree / "src/abacus").mkdir(parents=True)
        (tree / "src/abacus/sums.py").write_text(text)
    (packages / "other").mkdir(parents=True)
    (packages / "other/common.py").write_text("".join(body.splitlines(keepends=True)[:7]))
    signature = signature_lines(row, base, oracle)
    assert list(find_copies(packages, signature)) == []
    (packages / "other/vendored.py").write_text(f"def g(row):\n{body}")
    assert list(find_copies(packages, signature)) == [f"{packages}/other/vendored.py: 40 lines of src/abacus/sums.py"]
    assert len(IDS) == 7
