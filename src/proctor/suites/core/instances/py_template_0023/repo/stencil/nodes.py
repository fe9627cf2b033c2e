"""The parts of a template."""

from .errors import TemplateError


class Node:
    def __init__(self, template, line):
        self.template = template
        self.line = line

    def error(self, message):
        return TemplateError(message, self.template, self.line)

    def evaluate(self, expression, scope):
        try:
            return expression(scope)
        except TemplateError:
            raise
        except Exception as error:
            raise self.error(f"{type(error).__name__}: {error}") from error


def render_all(nodes, scope):
    return "".join(node.render(scope) for node in nodes)


class Text(Node):
    def __init__(self, template, line, text):
        super().__init__(template, line)
        self._text = text

    def render(self, scope):
        return self._text


class Print(Node):
    def __init__(self, template, line, expression):
        super().__init__(template, line)
        self._expression = expression

    def render(self, scope):
        value = self.evaluate(self._expression, scope)
        return "" if value is None else str(value)


class Set(Node):
    def __init__(self, template, line, name, expression):
        super().__init__(template, line)
        self._name = name
        self._expression = expression

    def render(self, scope):
        scope.set(self._name, self.evaluate(self._expression, scope))
        return ""


class If(Node):
    def __init__(self, template, line, branches):
        super().__init__(template, line)
        self._branches = branches  # pairs of condition (None for "else") and nodes

    def render(self, scope):
        for condition, nodes in self._branches:
            if condition is None or self.evaluate(condition, scope):
                return render_all(nodes, scope)
        return ""


class For(Node):
    def __init__(self, template, line, name, expression, body, otherwise):
        super().__init__(template, line)
        self._name = name
        self._expression = expression
        self._body = body
        self._otherwise = otherwise

    def render(self, scope):
        items = list(self.evaluate(self._expression, scope) or ())
        if not items:
            return render_all(self._otherwise, scope)
        out = []
        inner = scope.inner()
        for index, value in enumerate(items):
            inner.set(self._name, value)
            inner.set("loop", {"index": index + 1, "first": index == 0, "last": index == len(items) - 1})
            out.append(render_all(self._body, inner))
        return "".join(out)


class Include(Node):
    def __init__(self, template, line, expression):
        super().__init__(template, line)
        self._expression = expression

    def render(self, scope):
        template = scope.environment.load(self.evaluate(self._expression, scope), self)
        return template.render(scope.inner(), self)
