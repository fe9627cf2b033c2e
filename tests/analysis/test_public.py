import importlib
import pkgutil
import subprocess
import sys

import pytest

from proctor import analysis


def test_every_public_name_is_there_and_none_is_a_modules() -> None:
    assert sorted(name for names in analysis._LAZY_MODULES.values() for name in names) == sorted(analysis.__all__)
    for home, names in analysis._LAZY_MODULES.items():
        module = importlib.import_module(f"proctor.analysis.{home}")
        assert all(getattr(analysis, name) is getattr(module, name) for name in names)
    # Importing a module gives its package its name, and would put it in the place of what is called the same.
    assert not {module.name for module in pkgutil.iter_modules(analysis.__path__)} & set(analysis.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"'proctor\.analysis' has no attribute 'guess'"):
        analysis.guess  # type: ignore[attr-defined]  # noqa: B018 - that it raises is what is tested


def test_one_name_imports_no_others() -> None:
    script = (
        "import sys; from proctor.analysis import wilson; print(*(m for m in sys.modules if 'proctor.analysis.' in m))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "proctor.analysis.intervals\n"
