import os


class FileDisk:
    """Files in a directory."""

    def __init__(self, path):
        self._path = path
        os.makedirs(path, exist_ok=True)

    def _at(self, name):
        return os.path.join(self._path, name)

    def names(self):
        return sorted(os.listdir(self._path))

    def read(self, name):
        with open(self._at(name), "rb") as file:
            return file.read()

    def create(self, name):
        with open(self._at(name), "wb") as file:
            os.fsync(file.fileno())
        self._sync_directory()

    def append(self, name, data):
        with open(self._at(name), "ab") as file:
            file.write(data)

    def truncate(self, name, size):
        with open(self._at(name), "r+b") as file:
            file.truncate(size)
            os.fsync(file.fileno())

    def sync(self, name):
        with open(self._at(name), "r+b") as file:
            os.fsync(file.fileno())

    def rename(self, old, new):
        os.replace(self._at(old), self._at(new))
        self._sync_directory()

    def remove(self, name):
        os.remove(self._at(name))
        self._sync_directory()

    def _sync_directory(self):
        handle = os.open(self._path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
