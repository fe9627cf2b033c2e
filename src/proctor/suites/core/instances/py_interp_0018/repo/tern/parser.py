"""Source to trees: tuples of a kind, the line, and what belongs to it."""

from .errors import TernError
from .lexer import tokens

_LEVELS = (("or",), ("and",), ("==", "!="), ("<", "<=", ">", ">="), ("+", "-"), ("*", "/", "%"))


def parse(source):
    """The list of statements of a program."""
    parser = _Parser(tokens(source))
    statements = []
    while parser.kind != "end":
        statements.append(parser.statement())
    return statements


class _Parser:
    def __init__(self, found):
        self._tokens = found
        self._position = 0
        self._loops = 0  # how many loops of the present function are around us
        self._functions = 0

    @property
    def kind(self):
        kind, text, _ = self._tokens[self._position]
        return text if kind == "sign" else kind

    @property
    def line(self):
        return self._tokens[self._position][2]

    def take(self):
        token = self._tokens[self._position]
        self._position += 1
        return token[1]

    def expect(self, kind):
        if self.kind != kind:
            raise TernError(self.line, f"expected {kind!r}, found {self._tokens[self._position][1] or 'the end'!r}")
        return self.take()

    def statement(self):
        line = self.line
        kind = self.kind
        if kind == "fn" and self._tokens[self._position + 1][0] == "name":
            self.take()
            name = self.take()
            return ("declare", line, name, self.function(line, name))
        if kind == "let":
            self.take()
            name = self.expect("name")
            self.expect("=")
            return ("let", line, name, self.end_of(self.expression()))
        if kind == "if":
            return self.if_statement()
        if kind in ("while", "for"):
            return self.loop(self.take(), line)
        if kind in ("break", "continue"):
            if not self._loops:
                raise TernError(line, f"{kind!r} outside of a loop")
            self.take()
            return self.end_of((kind, line))
        if kind == "return":
            if not self._functions:
                raise TernError(line, "'return' outside of a function")
            self.take()
            value = ("value", line, None) if self.kind == ";" else self.expression()
            return self.end_of(("return", line, value))
        return self.end_of(self.simple(line))

    def end_of(self, tree):
        self.expect(";")
        return tree

    def simple(self, line):
        """An assignment or an expression."""
        target = self.expression()
        if self.kind != "=":
            return ("expression", line, target)
        self.take()
        if target[0] not in ("name", "index"):
            raise TernError(line, "this cannot be assigned to")
        return ("assign", line, target, self.expression())

    def block(self):
        self.expect("{")
        statements = []
        while self.kind != "}":
            if self.kind == "end":
                raise TernError(self.line, "expected '}', found 'the end'")
            statements.append(self.statement())
        self.take()
        return statements

    def if_statement(self):
        line = self.line
        self.expect("if")
        condition = self.expression()
        then = self.block()
        other = []
        if self.kind == "else":
            self.take()
            other = [self.if_statement()] if self.kind == "if" else self.block()
        return ("if", line, condition, then, other)

    def loop(self, word, line):
        name = None
        if word == "for":
            name = self.expect("name")
            self.expect("in")
        head = self.expression()
        self._loops += 1
        body = self.block()
        self._loops -= 1
        return ("while", line, head, body) if word == "while" else ("for", line, name, head, body)

    def function(self, line, name):
        self.expect("(")
        parameters = []
        while self.kind != ")":
            parameter = self.expect("name")
            if parameter in [known for known, _ in parameters]:
                raise TernError(line, f"{parameter!r} is declared twice")
            default = None
            if self.kind == "=":
                self.take()
                default = self.expression()
            elif parameters and parameters[-1][1] is not None:
                raise TernError(line, f"{parameter!r} needs a default value, too")
            parameters.append((parameter, default))
            if self.kind != ")":
                self.expect(",")
        self.take()
        self._functions += 1
        body = self.block()
        self._functions -= 1
        return ("function", line, name, parameters, body)

    def expression(self, level=0):
        if level == len(_LEVELS):
            return self.unary()
        left = self.expression(level + 1)
        while self.kind in _LEVELS[level]:
            line = self.line
            sign = self.take()
            right = self.expression(level + 1)
            left = (sign if sign in ("and", "or") else "binary", line, sign, left, right)
        return left

    def unary(self):
        line = self.line
        if self.kind in ("-", "not"):
            return ("unary", line, self.take(), self.unary())
        tree = self.primary()
        while self.kind in ("(", "["):
            line = self.line
            if self.take() == "(":
                tree = ("call", line, tree, self.items(")"))
            else:
                tree = ("index", line, tree, self.expression())
                self.expect("]")
        return tree

    def items(self, end):
        found = []
        while self.kind != end:
            found.append(self.expression())
            if self.kind != end:
                self.expect(",")
        self.take()
        return found

    def primary(self):
        line = self.line
        kind = self.kind
        if kind == "number":
            text = self.take()
            return ("value", line, float(text) if "." in text else int(text))
        if kind == "text":
            return ("value", line, self.take())
        if kind in ("true", "false", "nil"):
            return ("value", line, {"true": True, "false": False, "nil": None}[self.take()])
        if kind == "name":
            return ("name", line, self.take())
        if kind == "(":
            self.take()
            tree = self.expression()
            self.expect(")")
            return tree
        if kind == "[":
            self.take()
            return ("list", line, self.items("]"))
        if kind == "fn":
            self.take()
            return self.function(line, "fn")
        raise TernError(line, f"unexpected {self._tokens[self._position][1] or 'the end'!r}")
