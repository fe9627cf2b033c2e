"""Tokens to a template."""

import re

from . import expressions, nodes
from .errors import TemplateError
from .lexer import tokens
from .template import Template

_SET = re.compile(r"([A-Za-z_]\w*)\s*=(?!=)(.*)", re.DOTALL)
_FOR = re.compile(r"([A-Za-z_]\w*)\s+in\s(.*)", re.DOTALL)


def parse(name, source, filters):
    return _Parser(name, tokens(source, name), filters).template()


class _Parser:
    def __init__(self, name, found, filters):
        self._name = name
        self._tokens = found
        self._position = 0
        self._filters = filters

    def template(self):
        found, (word, _, line) = self.until()
        if word is not None:
            raise self.error(f"unexpected {word!r}", line)
        return Template(self._name, found)

    def until(self, *ends):
        """The nodes up to a tag with one of these words, and that tag as (word, rest, line); (None, ...) at the end."""
        found = []
        while self._position < len(self._tokens):
            kind, content, line = self._tokens[self._position]
            self._position += 1
            if kind == "text":
                found.append(nodes.Text(self._name, line, content))
            elif kind == "print":
                found.append(nodes.Print(self._name, line, self.expression(content, line)))
            else:
                word, _, rest = content.partition(" ")
                if word in ends:
                    return found, (word, rest.strip(), line)
                make = getattr(self, f"make_{word}", None)
                if make is None:
                    raise self.error(f"unexpected {word!r}", line)
                found.append(make(rest.strip(), line))
        if ends:
            raise self.error(f"expected {' or '.join(ends)}, found the end", line_of_end(self._tokens))
        return found, (None, "", 0)

    def make_set(self, rest, line):
        match = _SET.fullmatch(rest)
        if match is None:
            raise self.error("expected 'set name = expression'", line)
        return nodes.Set(self._name, line, match.group(1), self.expression(match.group(2), line))

    def make_include(self, rest, line):
        return nodes.Include(self._name, line, self.expression(rest, line))

    def make_if(self, rest, line):
        branches = []
        condition = self.expression(rest, line)
        while True:
            body, (word, rest, end_line) = self.until("elif", "else", "endif")
            branches.append((condition, body))
            if word == "elif":
                condition = self.expression(rest, end_line)
                continue
            if word == "else":
                body, _ = self.until("endif")
                branches.append((None, body))
            return nodes.If(self._name, line, branches)

    def make_for(self, rest, line):
        match = _FOR.fullmatch(rest)
        if match is None:
            raise self.error("expected 'for name in expression'", line)
        expression = self.expression(match.group(2), line)
        body, (word, _, _) = self.until("else", "endfor")
        otherwise = []
        if word == "else":
            otherwise, _ = self.until("endfor")
        return nodes.For(self._name, line, match.group(1), expression, body, otherwise)

    def expression(self, text, line):
        try:
            return expressions.parse(text, self._filters)
        except expressions.BadExpression as error:
            raise self.error(str(error), line) from None

    def error(self, message, line):
        return TemplateError(message, self._name, line)


def line_of_end(found):
    return found[-1][2] if found else 1
