"""Bytes: varints, tags, payloads."""

import struct

from .errors import DecodeError

VARINT, FIXED, SIZED = 0, 1, 2
LIMIT = 1 << 64


def write_varint(out, number):
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def read_varint(data, position):
    """The number and the position behind it."""
    number = shift = 0
    while True:
        if position >= len(data):
            raise DecodeError("the message ends inside a number")
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number % LIMIT, position


def zigzag(number):
    return abs(number) << 1 | (number < 0)


def unzigzag(number):
    return -(number >> 1) if number & 1 else number >> 1


def write_field(out, number, kind, payload):
    write_varint(out, number << 2 | kind)
    if kind == VARINT:
        write_varint(out, payload)
    elif kind == FIXED:
        out += struct.pack("<d", payload)
    else:
        write_varint(out, len(payload))
        out += payload


def read_fields(data):
    """Each field as (number, kind, payload)."""
    position = 0
    while position < len(data):
        tag, position = read_varint(data, position)
        number, kind = tag >> 2, tag & 3
        if number == 0:
            raise DecodeError("field number 0")
        if kind == VARINT:
            payload, position = read_varint(data, position)
        elif kind == FIXED:
            position += 8
            if position > len(data):
                raise DecodeError("the message ends inside a double")
            (payload,) = struct.unpack_from("<d", data, position - 8)
        elif kind == SIZED:
            length, position = read_varint(data, position)
            payload = data[position : position + length]
            position += length
        else:
            raise DecodeError("kind 3 is not in use")
        yield number, kind, payload
