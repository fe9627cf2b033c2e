from . import records
from .errors import Damaged


def merged(disk, segments):
    """The last value of each key in these segments, as pairs; without those that were deleted."""
    last = {}
    for name in segments:
        for offset, record in records.scan(disk.read(name)):
            if record is None:
                raise Damaged(f"{name} is damaged at byte {offset}")
            last[record.key] = record.value
    return [(key, value) for key, value in sorted(last.items()) if value]
