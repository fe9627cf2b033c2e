import pytest

from proctor import sandboxes


def test_the_table_of_contents_is_true() -> None:
    assert sorted(sandboxes.__all__) == sandboxes.__all__
    for name in sandboxes.__all__:
        assert getattr(sandboxes, name).__module__.startswith("proctor.sandboxes.")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = sandboxes.nothing
