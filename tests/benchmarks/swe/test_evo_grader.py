"""What SWE-EVO's eval scripts install, for every release of the data set, beside the official harness's own scripts.

The expected pins are those of the scripts that the harness at d46078d writes for the 48 tasks.
"""

import pytest

from proctor.benchmarks.swe.evo_grader import eval_script
from proctor.benchmarks.swe.rows import evo_row

# Start, end, and the version that the row stores: the harness computes another one from the end in half of them.
_DVC_WITH_OLD_PINS = """\
0.30.0 0.30.1 0.30, 0.33.1 0.34.0 3.1, 0.35.3 0.35.4 0.35, 0.52.1 0.53.1 2.1, 0.89.0 0.90.0 0.89, 0.91.2 0.91.3 1.2,
0.92.0 0.92.1 2.0, 1.0.0a1 1.0.0a2 1.0, 1.0.0b6 1.0.0 1.0, 1.0.1 1.0.2 1.0, 1.1.0 1.1.1 1.1, 1.1.7 1.1.8 1.7,
1.10.2 1.11.0 1.10, 1.11.12 1.11.13 1.11, 1.6.3 1.6.4 1.6, 2.19.0 2.20.0 2.19, 2.21.1 2.21.2 2.21, 2.5.0 2.5.1 2.5,
2.58.1 2.58.2 2.58, 2.7.2 2.7.3 2.7, 2.8.1 2.8.2 2.8"""
_DVC_WITHOUT = "3.12.0 3.13.0 3.12, 3.13.3 3.14.0 3.13, 3.15.0 3.15.1 3.15, 3.4.0 3.5.0 3.4, 3.43.1 3.44.0 3.43"
_MODIN = "0.24.0 0.24.1 0.24, 0.25.0 0.25.1 0.25, 0.27.0 0.27.1 0.27"
_DASK_OLD = """\
2022.9.2 2022.10.0 2022.9, 2023.3.2 2023.4.0 2023.3, 2023.6.1 2023.7.0 2023.6, 2023.8.0 2023.8.1 2023.8,
2023.9.2 2023.9.3 2023.9"""
_DASK_NEW = "2024.1.0 2024.1.1 2024.1, 2024.3.1 2024.4.0 2024.3"
_OTHERS = {
    "psf/requests": "v2.12.2 v2.12.3 2.12, v2.27.0 v2.27.1 2.27, v2.4.0 v2.4.1 2.4, v2.9.0 v2.9.1 2.9",
    "pydantic/pydantic": "v2.6.0b1 v2.6.0 2.6, v2.7.0 v2.7.1 2.7, v2.7.1 v2.7.2 2.7",
    "conan-io/conan": "2.0.14 2.0.15 2.0, 2.0.2 2.0.3 2.0",
    "scikit-learn/scikit-learn": "0.20.1 0.20.2 0.20, 0.21.1 0.21.2 0.21",
}
_OLD_DVC_PINS = ('python -m pip install "numpy<=1.20"', 'python -m pip install "pytest<8"')
_MODIN_PINS = (
    "python -m pip install 'numpy<2.0'",
    "python -m pip install --upgrade Cython",
    "python -m pip install -r requirements-dev.txt",
)
_DASK_PINS = ("pip install 'pandas<2.0'",)
_RELEASES = [
    *[("iterative/dvc", release, _OLD_DVC_PINS) for release in _DVC_WITH_OLD_PINS.split(",")],
    *[("iterative/dvc", release, ()) for release in _DVC_WITHOUT.split(",")],
    *[("modin-project/modin", release, _MODIN_PINS) for release in _MODIN.split(",")],
    *[("dask/dask", release, _DASK_PINS) for release in _DASK_OLD.split(",")],
    ("dask/dask", "2023.6.0 2023.6.1 2023.6", (*_DASK_PINS, "pip install 'distributed==2023.6.0'")),
    *[("dask/dask", release, ()) for release in _DASK_NEW.split(",")],
    *[(repo, release, ()) for repo, releases in _OTHERS.items() for release in releases.split(",")],
]
_ALL_PINS = {*_OLD_DVC_PINS, *_MODIN_PINS, *_DASK_PINS, "pip install 'distributed==2023.6.0'"}


def _script(repo: str, start: str, end: str, version: str, test_patch: str = "") -> list[str]:
    row = {
        "repo": repo,
        "instance_id": f"{repo.replace('/', '__')}_{start}_{end}",
        "base_commit": "0" * 40,
        "patch": "oracle",
        "test_patch": test_patch,
        "problem_statement": "notes",
        "FAIL_TO_PASS": ["tests/test_a.py::test_a"],
        "PASS_TO_PASS": [],
        "start_version": start,
        "end_version": end,
        "image": "donor",
        "version": version,
        "test_cmds": "pytest -rA",
    }
    return eval_script(evo_row(row)).split("\n")


def test_the_table_has_every_task_of_the_data_set() -> None:
    assert len(_RELEASES) == 48


@pytest.mark.parametrize(("repo", "release", "pins"), _RELEASES, ids=lambda value: str(value).strip())
def test_a_release_is_tested_with_the_pins_of_the_official_environment(
    repo: str, release: str, pins: tuple[str, ...]
) -> None:
    start, end, version = release.split()
    lines = _script(repo, start, end, version)
    assert [line for line in lines if line in _ALL_PINS] == list(pins)
    if repo == "modin-project/modin":
        assert lines.index(_MODIN_PINS[2]) < lines.index("python -m pip install -e .")
    elif pins:
        assert lines.index(pins[0]) > max(number for number, line in enumerate(lines) if line.endswith(("-e .", ']"')))


def test_files_that_are_not_python_are_left_out_where_the_harness_does() -> None:
    patch = "".join(f"diff --git a/{path} b/{path}\n" for path in ("tests/test_a.py", "tests/data.dvc"))
    for repo, start, end, both in (
        ("dask/dask", "2024.1.0", "2024.1.1", False),
        ("conan-io/conan", "2.0.14", "2.0.15", False),
        ("conan-io/conan", "2.0.2", "2.0.3", True),
        ("iterative/dvc", "2.8.1", "2.8.2", False),
        ("iterative/dvc", "2.7.2", "2.7.3", True),
    ):
        tests = next(line for line in _script(repo, start, end, "1", patch) if line.startswith("pytest"))
        assert tests.endswith("tests/data.dvc" if both else "tests/test_a.py"), (repo, start)
