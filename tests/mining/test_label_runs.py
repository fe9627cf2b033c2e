"""Runs before and after a change, under another date too."""

import os
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from proctor.mining.label_runs import find_faketime, shift_variables

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
