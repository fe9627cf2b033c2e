import pytest

from grading.controls import toy_tests
from proctor.grading.controls import languages


@pytest.fixture(autouse=True)
def _toy_language(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(languages.FINDERS, ".toy", toy_tests.find)
