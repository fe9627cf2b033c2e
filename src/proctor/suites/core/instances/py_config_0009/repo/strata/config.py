from . import references, textfile
from .merge import merge


class Config:
    def __init__(self):
        self._tree = {}

    def add(self, name, values):
        """Puts a layer on top; `name` is for messages."""
        merge(self._tree, values, name)
        references.put_in(self._tree)

    def add_text(self, name, text):
        self.add(name, textfile.read(name, text))

    def __getitem__(self, key):
        return references.look_up(self._tree, key)

    def get(self, key, default=None):
        try:
            return self[key]
        except KeyError:
            return default

    def __contains__(self, key):
        try:
            references.look_up(self._tree, key)
        except KeyError:
            return False
        return True

    def as_dict(self):
        """Everything, with all references put in."""
        return self._tree
