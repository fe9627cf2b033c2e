from .nodes import render_all

MAX_DEPTH = 50


class Template:
    def __init__(self, name, nodes):
        self.name = name
        self._nodes = nodes

    def render(self, scope, asked_by=None):
        """`asked_by` is the node that includes this template, for errors."""
        environment = scope.environment
        if environment.depth >= MAX_DEPTH:
            raise asked_by.error("templates are nested too deeply")
        environment.depth += 1
        try:
            return render_all(self._nodes, scope)
        finally:
            environment.depth -= 1
