from . import formula, refs
from .calculate import Calculator
from .values import CIRCLE, SYNTAX, constant


class Sheet:
    def __init__(self, functions=None):
        self._texts = {}
        self._trees = {}  # cell -> tree, or None for a formula that cannot be read
        self._values = {}
        self._users = {}  # cell -> the cells that depend on it
        self._calculator = Calculator(self._values.get, dict(functions or {}))

    def text(self, name):
        """What was put into the cell."""
        return self._texts.get(refs.parse(name), "")

    def get(self, name):
        return self._values.get(refs.parse(name))

    def set(self, name, text):
        """Puts a text into a cell; returns the names of all cells whose values have changed."""
        cell = refs.parse(name)
        self._texts[cell] = text
        self._trees.pop(cell, None)
        needs = set()
        if text.startswith("="):
            try:
                self._trees[cell] = formula.parse(text[1:])
                needs = set(formula.references(self._trees[cell]))
            except formula.BadFormula:
                self._trees[cell] = None
        for other in sorted(needs):
            self._users.setdefault(other, []).append(cell)
        changed = set()
        self._refresh(cell, (), changed)
        return [refs.name(other) for other in sorted(changed)]

    def _refresh(self, cell, path, changed):
        """Calculates a cell and everything that depends on it."""
        if cell in path:
            for other in path[path.index(cell) :]:
                self._store(other, CIRCLE, changed)
            return
        self._store(cell, self._calculated(cell), changed)
        for user in self._users.get(cell, ()):
            self._refresh(user, path + (cell,), changed)

    def _calculated(self, cell):
        if cell not in self._trees:
            return constant(self._texts[cell])
        if self._trees[cell] is None:
            return SYNTAX
        return self._calculator.value(self._trees[cell])

    def _store(self, cell, value, changed):
        if self._values.get(cell) != value:
            self._values[cell] = value
            changed.add(cell)
