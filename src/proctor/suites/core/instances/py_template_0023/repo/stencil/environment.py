from .errors import TemplateError
from .filters import FILTERS
from .parser import parse
from .scope import Scope


class Environment:
    def __init__(self, source, filters=None):
        self._source = source.__getitem__ if hasattr(source, "__getitem__") else source
        self._filters = dict(FILTERS, **(filters or {}))
        self._templates = {}
        self.depth = 0

    def render(self, name, **values):
        self.depth = 0
        return self.load(name).render(Scope(self, values))

    def load(self, name, asked_by=None):
        """The template with this name; `asked_by` is the node that wants it, for errors."""
        if name not in self._templates:
            try:
                source = self._source(name)
            except KeyError:
                message = f"there is no template {name!r}"
                raise asked_by.error(message) if asked_by else TemplateError(message, name, 0) from None
            self._templates[name] = parse(name, source, self._filters)
        return self._templates[name]
