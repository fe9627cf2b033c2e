from .units import UNITS


def render(milliseconds):
    """The text that `parse` reads back to the same number."""
    if milliseconds == 0:
        return "0"
    parts = []
    rest = milliseconds
    for name, size in UNITS:
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{name}")
    return " ".join(parts)
