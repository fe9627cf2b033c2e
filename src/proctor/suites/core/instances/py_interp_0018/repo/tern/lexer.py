import re

from .errors import TernError

KEYWORDS = set("let fn if else while for in break continue return true false nil and or not".split())
_TOKEN = re.compile(
    r"(?P<space>[ \t\r]+|#[^\n]*)|(?P<newline>\n)|(?P<number>[0-9]+(?:\.[0-9]+)?)|\"(?P<text>[^\"\n]*)\""
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<sign>==|!=|<=|>=|[-+*/%<>=(){}\[\],;])"
)


def tokens(source):
    """A list of (kind, text, line), with an ("end", "", line) at its end."""
    found = []
    line = 1
    position = 0
    while position < len(source):
        match = _TOKEN.match(source, position)
        if match is None:
            raise TernError(line, f"unexpected {source[position]!r}")
        kind = match.lastgroup
        if kind == "newline":
            line += 1
        elif kind != "space":
            text = match.group(kind)
            found.append((text if kind == "name" and text in KEYWORDS else kind, text, line))
        position = match.end()
    found.append(("end", "", line))
    return found
