class Function:
    """A function of the language."""

    def __init__(self, name, parameters, body):
        self.name = name
        self.parameters = parameters  # pairs of name and default value, a tree or None
        self.body = body


def truth(value):
    return value is not None and value is not False


def same(one, other):
    """Numbers equal numbers, true and false only themselves."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return one == other


def show(value, inside=False):
    if value is None:
        return "nil"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(show(item, True) for item in value) + "]"
    if isinstance(value, str):
        return f'"{value}"' if inside else value
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value) if isinstance(value, (int, float)) else f"<fn {getattr(value, 'name', 'builtin')}>"
