"""Runs before and after a change, under another date too."""

import os
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from proctor.mining.label_runs import find_faketime, shift_variables, shifted_timeout
from proctor.mining.languages import Project, plan_environment, plan_tests
from proctor.mining.languages.base import EnvironmentPlan
from proctor.mining.settings import MineSettings

WAITS = """
public class Waits {
    public static void main(String[] words) throws Exception {
        long start = System.nanoTime();
        synchronized (words) { words.wait(50); }
        System.out.println(java.time.Year.now() + " " + (System.nanoTime() - start >= 40_000_000));
    }
}
"""


@pytest.mark.skipif(shutil.which("javac") is None, reason="needs a JDK")
def test_another_date_leaves_waits_as_long_as_they_are(tmp_path: Path) -> None:
    library = find_faketime()
    if library is None:
        pytest.skip("libfaketime is neither here nor to be fetched")
    (tmp_path / "Waits.java").write_text(WAITS)
    variables = shift_variables(str(library), datetime(2031, 5, 6, 7, 8, tzinfo=UTC))
    done = subprocess.run(
        ["java", tmp_path / "Waits.java"], env={**os.environ, **variables}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "2031 true\n"


def test_tests_that_wait_for_ever_under_another_date_end_soon() -> None:
    assert shifted_timeout(1800, 10) == 80
    assert shifted_timeout(60, 10) == 60


async def never(plan: EnvironmentPlan) -> Path:
    raise AssertionError(plan)


@pytest.mark.skipif(shutil.which("rustc") is None, reason="needs Rust")
async def test_another_date_does_not_stop_the_compiler_of_rust(tmp_path: Path) -> None:
    library = find_faketime()
    if library is None:
        pytest.skip("libfaketime is neither here nor to be fetched")
    for name, text in {"Cargo.toml": "[package]\nname = 'a'\n", "Cargo.lock": "", "tests/a.rs": ""}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    made = Project(tree=tmp_path, paths=("Cargo.lock", "Cargo.toml"), tests=("tests/a.rs",), date="2026-01-01")
    wrapper = plan_tests("rust", made, MineSettings()).variables["RUSTC_WRAPPER"]
    program = tmp_path / "wrapper"
    program.write_bytes((await plan_environment("rust", made, MineSettings(), never)).files[Path(wrapper).name])
    program.chmod(0o755)
    variables = shift_variables(str(library), datetime(2031, 5, 6, 7, 8, tzinfo=UTC))
    done = subprocess.run(
        [program, "rustc", "-vV"],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.startswith("rustc ")
