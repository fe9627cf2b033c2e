import doctest
import types

import pytest

from grading.controls.altered import alterations_of, text
from proctor.grading.controls import AlterationKind, alter

SOURCE = text('''
    """A module.

    >>> 1 + 1
    2
    """


    def words(count):
        """Words.

        >>> for n in range(1):
        ...     print("one", n)
        one 0
        >>> words(2)
        ['a', 'b']

        >>> words(0)
        []
        >>> words("é")  # é
        Traceback (most recent call last):
            ...
        TypeError: 'str' object cannot be interpreted as an integer"""
        return [chr(97 + n) for n in range(count)]


    class Proof:
        def label(self):
            r"""
            >>> print('\\\\w')
            \\w
            >>> Proof().label()
            'proof'
            """
            return "proof"
''')


def failed(source: bytes) -> set[str]:
    module = types.ModuleType("sample")
    exec(compile(source, "sample.py", "exec", dont_inherit=True), module.__dict__)
    runner = doctest.DocTestRunner(verbose=False)
    examples = doctest.DocTestFinder().find(module, "sample", module=False, extraglobs=module.__dict__)
    return {one.name for one in examples if one.examples and runner.run(one, out=lambda _: None).failed}


@pytest.mark.parametrize(
    ("test", "name", "count"),
    [
        ("src/sample.py::sample", "sample", 1),
        ("src/sample.py::src.sample.words", "sample.words", 3),
        ("src/sample.py::sample.Proof.label", "sample.Proof.label", 1),
        ("sample.words", "sample.words", 3),
        ("Doctest: src.sample.words", "sample.words", 3),
    ],
)
def test_each_expected_output_of_a_doctest_is_altered(test: str, name: str, count: int) -> None:
    assert failed(SOURCE) == set()
    found = [one for one in alterations_of(SOURCE, test, "src/sample.py") if one.kind is AlterationKind.OUTPUT]
    assert len(found) == count
    for one in found:
        assert failed(alter(SOURCE, [one])) == {name}, one
