from . import manifest, records
from .compaction import merged
from .errors import Damaged


class Store:
    def __init__(self, disk, limit=1 << 20):
        self._disk = disk
        self._limit = limit
        self._segments = manifest.load(disk)
        self._index = {}  # key -> (segment, offset)
        self._size = 0  # of the newest segment
        for name in self._segments:
            self._open_segment(name)
        if not self._segments:
            self._begin_segment()

    def get(self, key, default=None):
        place = self._index.get(key)
        if place is None:
            return default
        name, offset = place
        return records.decode(self._disk.read(name), offset).value

    def put(self, key, value):
        if value is None:
            raise ValueError("None is not a value")
        self._index[key] = self._write(key, value)

    def delete(self, key):
        """Says whether the key was there."""
        if key not in self._index:
            return False
        self._write(key, None)
        del self._index[key]
        return True

    def keys(self):
        return sorted(self._index)

    def __len__(self):
        return len(self._index)

    def __contains__(self, key):
        return key in self._index

    def segments(self):
        """The names of the segments, the oldest first."""
        return list(self._segments)

    def compact(self, skip=0):
        """Rewrites all segments but the newest and the `skip` oldest into one."""
        kept, old, newest = self._segments[:skip], self._segments[skip:-1], self._segments[-1:]
        if not old:
            return
        name = self._next_name()
        self._disk.create(name)
        size = 0
        for key, value in merged(self._disk, old):
            data = records.encode(key, value)
            self._disk.append(name, data)
            if self._index.get(key, newest)[0] in old:
                self._index[key] = (name, size)
            size += len(data)
        for obsolete in old:
            self._disk.remove(obsolete)
        self._segments = kept + newest + [name]
        self._size = size
        manifest.save(self._disk, self._segments)

    def _write(self, key, value):
        """Appends a record; its place."""
        data = records.encode(key, value)
        if self._size > self._limit:
            self._begin_segment()
        name, offset = self._segments[-1], self._size
        self._disk.append(name, data)
        self._disk.sync(name)
        self._size += len(data)
        return name, offset

    def _begin_segment(self):
        name = self._next_name()
        self._disk.create(name)
        manifest.save(self._disk, self._segments + [name])
        self._segments.append(name)
        self._size = 0

    def _next_name(self):
        """Never a name that was used before."""
        last = max((int(name.split(".")[0]) for name in self._segments), default=0)
        return f"{last + 1:06d}.seg"

    def _open_segment(self, name):
        data = self._disk.read(name)
        self._size = len(data)
        for offset, record in records.scan(data):
            if record is None:
                if name != self._segments[-1]:
                    raise Damaged(f"{name} is damaged at byte {offset}")
            elif not record.value:
                self._index.pop(record.key, None)
            else:
                self._index[record.key] = (name, offset)
