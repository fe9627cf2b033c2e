from .errors import TernError


class Scopes:
    """The names that are known at present, the innermost block last."""

    def __init__(self):
        self._blocks = [{}]

    def enter(self):
        self._blocks.append({})

    def leave(self):
        self._blocks.pop()

    def declare(self, line, name, value):
        if name in self._blocks[-1]:
            raise TernError(line, f"{name!r} is declared twice")
        self._blocks[-1][name] = value

    def get(self, line, name):
        return self._holder(line, name)[name]

    def assign(self, line, name, value):
        self._holder(line, name)[name] = value

    def _holder(self, line, name):
        for block in reversed(self._blocks):
            if name in block:
                return block
        raise TernError(line, f"{name!r} is not known")
