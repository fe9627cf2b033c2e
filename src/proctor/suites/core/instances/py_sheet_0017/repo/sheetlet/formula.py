"""Text to trees. A tree is a tuple: its kind, and what belongs to it.

("value", v)  ("cell", c)  ("range", c, c)  ("negative", tree)  ("binary", sign, tree, tree)  ("call", name, [tree, ...])
"""

import re

from . import refs

_TOKEN = re.compile(
    r"\s*(?:(?P<number>[0-9]+(?:\.[0-9]+)?)|\"(?P<text>(?:[^\"]|\"\")*)\""
    r"|(?P<word>[A-Za-z][A-Za-z0-9]*)|(?P<sign><>|<=|>=|[-+*/^&=<>():;]))"
)
_LEVELS = (("=", "<>", "<", "<=", ">", ">="), ("&",), ("+", "-"), ("*", "/"))


class BadFormula(Exception):
    pass


def parse(text):
    """The tree of a formula, without the leading "="."""
    tokens = _tokens(text)
    tree, position = _binary(tokens, 0, 0)
    if tokens[position][0] != "end":
        raise BadFormula(text)
    return tree


def references(tree):
    """Every cell that the formula mentions."""
    kind = tree[0]
    if kind == "cell":
        yield tree[1]
    elif kind == "range":
        yield tree[1]
        yield tree[2]
    elif kind == "negative":
        yield from references(tree[1])
    elif kind == "binary":
        yield from references(tree[2])
        yield from references(tree[3])
    elif kind == "call":
        for argument in tree[2]:
            yield from references(argument)


def _tokens(text):
    tokens = []
    position = 0
    text = text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise BadFormula(text)
        tokens.append((match.lastgroup, match.group(match.lastgroup)))
        position = match.end()
    tokens.append(("end", ""))
    return tokens


def _binary(tokens, position, level):
    if level == len(_LEVELS):
        return _power(tokens, position)
    left, position = _binary(tokens, position, level + 1)
    while tokens[position][0] == "sign" and tokens[position][1] in _LEVELS[level]:
        sign = tokens[position][1]
        right, position = _binary(tokens, position + 1, level + 1)
        left = ("binary", sign, left, right)
    return left, position


def _power(tokens, position):
    if tokens[position] == ("sign", "-"):
        operand, position = _power(tokens, position + 1)
        return ("negative", operand), position
    base, position = _operand(tokens, position)
    if tokens[position] == ("sign", "^"):
        exponent, position = _power(tokens, position + 1)
        return ("binary", "^", base, exponent), position
    return base, position


def _operand(tokens, position):
    kind, text = tokens[position]
    position += 1
    if kind == "number":
        return ("value", float(text) if "." in text else int(text)), position
    if kind == "text":
        return ("value", text.replace('""', '"')), position
    if (kind, text) == ("sign", "("):
        tree, position = _binary(tokens, position, 0)
        return tree, _expect(tokens, position, ")")
    if kind != "word":
        raise BadFormula(text)
    word = text.upper()
    if tokens[position] == ("sign", "("):
        return _call(tokens, position + 1, word)
    if word in ("TRUE", "FALSE"):
        return ("value", word == "TRUE"), position
    first = _cell(word)
    if tokens[position] == ("sign", ":"):
        kind, text = tokens[position + 1]
        if kind != "word":
            raise BadFormula(text)
        return ("range", first, _cell(text.upper())), position + 2
    return ("cell", first), position


def _call(tokens, position, word):
    arguments = []
    if tokens[position] == ("sign", ")"):
        return ("call", word, arguments), position + 1
    while True:
        argument, position = _binary(tokens, position, 0)
        arguments.append(argument)
        if tokens[position] != ("sign", ";"):
            return ("call", word, arguments), _expect(tokens, position, ")")
        position += 1


def _cell(word):
    try:
        return refs.parse(word)
    except ValueError as error:
        raise BadFormula(str(error)) from None


def _expect(tokens, position, sign):
    if tokens[position] != ("sign", sign):
        raise BadFormula(f"{sign!r} is missing")
    return position + 1
