class Scope:
    """The variables that a piece of a template sees."""

    def __init__(self, environment, values, outer=None):
        self.environment = environment
        self.outer = outer
        self._values = values

    def inner(self, **values):
        return Scope(self.environment, values, self)

    def get(self, name):
        scope = self
        while scope is not None:
            if name in scope._values:
                return scope._values[name]
            scope = scope.outer
        return None

    def set(self, name, value):
        self._values[name] = value
