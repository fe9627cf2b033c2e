import pkgutil
from types import ModuleType

import pytest

from proctor import analysis, benchmarks, results, sandboxes


@pytest.mark.parametrize("package", [analysis, benchmarks, results, sandboxes], ids=lambda package: package.__name__)
def test_every_public_name_is_there_and_none_is_a_modules(package: ModuleType) -> None:
    assert all(getattr(package, name).__name__ == name for name in package.__all__)
    # Importing a module gives its package its name, and would put it in the place of what is called the same.
    assert not {module.name for module in pkgutil.iter_modules(package.__path__)} & set(package.__all__)
