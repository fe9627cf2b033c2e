"""Text to tokens: (kind, content, line), kind being "text", "print" or "tag"."""

import re

from .errors import TemplateError

_OPEN = re.compile(r"\{\{-?|\{%-?|\{#")
_CLOSE = {"{{": "}}", "{%": "%}", "{#": "#}"}
_KINDS = {"{{": "print", "{%": "tag"}


def tokens(source, template):
    found = []
    position = 0
    strip = False  # whether the last tag removes the white space behind it
    while True:
        opening = _OPEN.search(source, position)
        text = source[position : opening.start()] if opening else source[position:]
        if strip:
            text = text.lstrip()
        if opening and opening.group().endswith("-"):
            text = text.rstrip()
        if text:
            found.append(("text", text, _line(source, position)))
        if opening is None:
            return found
        start = opening.group()[:2]
        line = _line(source, opening.start())
        end = source.find(_CLOSE[start], opening.end())
        if end < 0:
            raise TemplateError(f"{start} is not closed", template, line)
        content = source[opening.end() : end]
        strip = content.endswith("-") and start != "{#"
        if start != "{#":
            found.append((_KINDS[start], content[:-1].strip() if strip else content.strip(), line))
        position = end + 2


def _line(source, position):
    return source.count("\n", 0, position) + 1
