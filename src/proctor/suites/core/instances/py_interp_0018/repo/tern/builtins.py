from .values import show


def _push(items, value):
    if not isinstance(items, list):
        raise TypeError(f"{show(items)} is not a list")
    items.append(value)


def _range(*numbers):
    return list(range(*numbers))


BUILTINS = {"len": lambda items: len(items), "push": _push, "range": _range, "text": lambda value: show(value)}
