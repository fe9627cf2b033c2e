"""Large libraries that ours is compared with, imported when a test asks: every worker collects all tests."""

import importlib
from typing import Any


class LargeLibrary:
    """A module that is imported with the first name that is wanted of it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # whoever collects tests asks what this is
            raise AttributeError(name)
        return getattr(importlib.import_module(self._name), name)


scipy_stats = LargeLibrary("scipy.stats")
statsmodels_linear = LargeLibrary("statsmodels.regression.linear_model")
statsmodels_multitest = LargeLibrary("statsmodels.stats.multitest")
statsmodels_tables = LargeLibrary("statsmodels.stats.contingency_tables")
