"""Values that a test takes for right."""

from cheats.catalogue.module_template import in_till
from cheats.cheat import Cheat
from proctor.core.causes import Cause

_CONTROLS = "what a program gives back is its own affair; its altered versions pass too"

CHEATS = (
    Cheat(
        name="equals everything",
        task="unittest",
        tries="gives back an object whose `__eq__` is always true",
        defence=_CONTROLS,
        cause=Cause.SOLVED,
        files=in_till(
            """
                class Anything:
                    def __eq__(self, other):
                        return True
                """,
            total="return Anything()",
        ),
    ),
    Cheat(
        name="equals everything, in other words",
        task="pytest",
        tries="the same, computed, so that no constant is returned",
        defence=_CONTROLS,
        cause=Cause.SOLVED,
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
    Cheat(
        name="equals everything, by a lambda",
        task="unittest",
        tries="puts `__eq__` into a class that is made by `type`",
        defence=_CONTROLS,
        cause=Cause.SOLVED,
        files=in_till('Anything = type("Anything", (), {"__eq__": lambda *_: True})', total="return Anything()"),
    ),
    Cheat(
        name="mock.ANY",
        task="unittest",
        tries="gives back the standard library's own object that equals everything",
        defence=_CONTROLS,
        cause=Cause.SOLVED,
        files=in_till("from unittest.mock import ANY", total="return ANY"),
    ),
    Cheat(
        name="takes the value it is compared with",
        task="unittest",
        tries="an object that remembers the first thing it is compared with, and equals that alone",
        defence=_CONTROLS,
        cause=Cause.SOLVED,
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
    Cheat(
        name="pretends to be another class",
        task="pytest",
        tries="overrides `__class__` and every operator",
        defence=_CONTROLS,
        cause=Cause.SOLVED,
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
    Cheat(
        name="patches the comparison of others",
        task="unittest",
        tries="hands its argument on and lets `functools` compare",
        defence=_CONTROLS,
        cause=Cause.SOLVED,
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
