"""What can be in a cell: None, int, float, bool, str, Error."""


class Error:
    __slots__ = ("code",)

    def __init__(self, code):
        self.code = code

    def __eq__(self, other):
        return isinstance(other, Error) and self.code == other.code

    def __hash__(self):
        return hash(self.code)

    def __str__(self):
        return self.code

    __repr__ = __str__


DIVISION = Error("#DIV/0!")
VALUE = Error("#VALUE!")
NAME = Error("#NAME?")
SYNTAX = Error("#SYNTAX!")
CIRCLE = Error("#CIRC!")


def same(one, other):
    """Whether two values are the same, also in kind: 1, TRUE and "1" are not."""
    numbers = (int, float)
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, numbers) and isinstance(other, numbers):
        return one == other
    return type(one) is type(other) and one == other


def tidy(number):
    """Whole numbers are ints."""
    return int(number) if isinstance(number, float) and number.is_integer() else number


def constant(text):
    """The value of a text that is not a formula."""
    if text == "":
        return None
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        if number != number or number in (float("inf"), float("-inf")):
            break
        return tidy(number)
    return text


def as_number(value):
    """The value in a calculation: a number or an Error."""
    if value is None:
        return 0
    if isinstance(value, str):
        return VALUE
    return int(value) if isinstance(value, bool) else value


def as_text(value):
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return value if isinstance(value, Error) else str(value)
