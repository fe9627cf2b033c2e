import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.analysis.distribution import distribution_of


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=80))
def test_every_number_is_numpys(values: list[float]) -> None:
    found = distribution_of(values)
    assert found is not None
    assert (found.count, found.minimum, found.maximum) == (len(values), min(values), max(values))
    expected = [np.sum(values), np.mean(values), *np.quantile(values, [0.25, 0.5, 0.75, 0.9])]
    ours = [found.total, found.mean, found.p25, found.p50, found.p75, found.p90]
    assert ours == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_of_nothing_there_is_none() -> None:
    assert distribution_of([]) is None
