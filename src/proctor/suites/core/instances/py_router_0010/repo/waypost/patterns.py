"""Patterns and their segments."""

import re
from urllib.parse import quote

STATIC, INT, ANY, REST = range(4)
_KINDS = {"int": INT, "rest": REST, None: ANY}
_PARAM = re.compile(r"\{([A-Za-z_]\w*)(?::(\w+))?\}")


class Segment:
    __slots__ = ("kind", "text")

    def __init__(self, kind, text):
        self.kind = kind
        self.text = text  # what it must be, or the name of the parameter


def parse(pattern):
    """The segments of a pattern."""
    if not pattern.startswith("/"):
        raise ValueError(f"{pattern!r} does not start with a slash")
    parts = pattern[1:].split("/")
    segments = []
    names = set()
    for index, part in enumerate(parts):
        param = _PARAM.fullmatch(part)
        if param is None:
            if "{" in part or "}" in part:
                raise ValueError(f"{pattern!r}: cannot read {part!r}")
            segments.append(Segment(STATIC, part))
            continue
        name, kind = param.groups()
        if kind not in _KINDS:
            raise ValueError(f"{pattern!r}: unknown kind {kind!r}")
        if name in names:
            raise ValueError(f"{pattern!r}: {name!r} twice")
        if _KINDS[kind] == REST and index != len(parts) - 1:
            raise ValueError(f"{pattern!r}: {part!r} must be last")
        names.add(name)
        segments.append(Segment(_KINDS[kind], name))
    return segments


def compiled(segments):
    """A regular expression that matches what the segments match."""
    regexes = {INT: r"(\d+)", ANY: r"([^/]+)", REST: r"(.+)"}
    parts = (re.escape(s.text) if s.kind == STATIC else regexes[s.kind] for s in segments)
    return re.compile("/" + "/".join(parts))


def build(segments, params):
    """The path for these parameters."""
    left = dict(params)
    parts = []
    for segment in segments:
        if segment.kind == STATIC:
            parts.append(quote(segment.text, safe=""))
            continue
        try:
            value = str(left.pop(segment.text))
        except KeyError:
            raise ValueError(f"{segment.text!r} is missing") from None
        parts.append(quote(value, safe="/" if segment.kind == REST else ""))
    if left:
        raise ValueError(f"unknown parameter {sorted(left)[0]!r}")
    return "/" + "/".join(parts)
