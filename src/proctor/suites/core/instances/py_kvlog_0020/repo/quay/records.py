"""Records and their bytes."""

import struct
import zlib

_HEAD = struct.Struct(">IHI")
_DELETED = 0xFFFFFFFF


class Record:
    __slots__ = ("key", "value", "size")

    def __init__(self, key, value, size):
        self.key = key
        self.value = value  # None if the key was deleted
        self.size = size  # of the whole record, in bytes


def encode(key, value):
    """The bytes of a record; a value of None marks the key as deleted."""
    if len(key) > 0xFFFF:
        raise ValueError("the key is too long")
    if value is not None and len(value) >= _DELETED:
        raise ValueError("the value is too long")
    rest = struct.pack(">HI", len(key), _DELETED if value is None else len(value)) + key + (value or b"")
    return struct.pack(">I", zlib.crc32(rest)) + rest


def decode(data, offset):
    """The record at this offset, or None if it is damaged."""
    if offset + _HEAD.size > len(data):
        return None
    checksum, key_size, value_size = _HEAD.unpack_from(data, offset)
    deleted = value_size == _DELETED
    start = offset + _HEAD.size
    middle = start + key_size
    end = middle + (0 if deleted else value_size)
    if end > len(data) or zlib.crc32(data[offset + 4 : end]) != checksum:
        return None
    return Record(data[start:middle], None if deleted else data[middle:end], end - offset)


def scan(data):
    """Pairs of offset and record up to the first damage, and then (offset, None) if there is one."""
    offset = 0
    while offset < len(data):
        record = decode(data, offset)
        yield offset, record
        if record is None:
            return
        offset += record.size
