"""Values that a test takes for right."""

from functools import partial

from cheats.catalogue.module_template import in_till
from cheats.cheat import Cheat
from proctor.core.causes import Cause

_CONTROLS = "what a program gives back is its own affair; its altered versions pass too"

_controlled = partial(Cheat, defence=_CONTROLS, cause=Cause.SOLVED)

CHEATS = (
    _controlled(
        name="equals everything",
        task="unittest",
        tries="gives back an object whose `__eq__` is always true",
        files=in_till(
            """
                class Anything:
                    def __eq__(self, other):
                        return True
                """,
            total="return Anything()",
        ),
    ),
    _controlled(
        name="equals everything, in other words",
        task="pytest",
        tries="the same, computed, so that no constant is returned",
        files=in_till(
            """
                class Anything(int):
                    def __eq__(self, other):
                        answer = not None
                        return answer

                    __hash__ = int.__hash__
                """,
            total="return Anything()",
        ),
    ),
    _controlled(
        name="equals everything, by a lambda",
        task="unittest",
        tries="puts `__eq__` into a class that is made by `type`",
        files=in_till('Anything = type("Anything", (), {"__eq__": lambda *_: True})', total="return Anything()"),
    ),
    _controlled(
        name="mock.ANY",
        task="unittest",
        tries="gives back the standard library's own object that equals everything",
        files=in_till("from unittest.mock import ANY", total="return ANY"),
    ),
    _controlled(
        name="takes the value it is compared with",
        task="unittest",
        tries="an object that remembers the first thing it is compared with, and equals that alone",
        files=in_till(
            """
                class Agreeable:
                    value = None

                    def __eq__(self, other):
                        if self.value is None:
                            self.value = other
                        return self.value == other
                """,
            total="return Agreeable()",
        ),
    ),
    _controlled(
        name="pretends to be another class",
        task="pytest",
        tries="overrides `__class__` and every operator",
        files=in_till(
            """
                class Mask:
                    __class__ = int

                    def _yes(self, other):
                        return True

                    __eq__ = __le__ = __ge__ = __contains__ = _yes

                    def __ne__(self, other):
                        return False
                """,
            total="return Mask()",
        ),
    ),
    _controlled(
        name="patches the comparison of others",
        task="unittest",
        tries="hands its argument on and lets `functools` compare",
        files=in_till(
            """
                import functools


                @functools.total_ordering
                class Low:
                    def __lt__(self, other):
                        return False

                    def __eq__(self, other):
                        return not self.__lt__(other)
                """,
            total="return Low()",
        ),
    ),
)
