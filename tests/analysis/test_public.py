import subprocess
import sys

import pytest

from proctor import analysis


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"'proctor\.analysis' has no attribute 'guess'"):
        analysis.guess  # type: ignore[attr-defined]  # noqa: B018 - that it raises is what is tested


def test_one_name_imports_no_others() -> None:
    script = (
        "import sys; from proctor.analysis import wilson; print(*(m for m in sys.modules if 'proctor.analysis.' in m))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "proctor.analysis.intervals\n"
