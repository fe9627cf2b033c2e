"""Dicts to messages and back."""

from . import wire
from .errors import DecodeError, EncodeError

UNKNOWN = "__unknown__"

_KINDS = {
    "uint": wire.VARINT,
    "int": wire.VARINT,
    "bool": wire.VARINT,
    "double": wire.FIXED,
    "text": wire.SIZED,
    "bytes": wire.SIZED,
}


class Field:
    def __init__(self, number, name, type, repeated=False):
        if not isinstance(number, int) or number < 1:
            raise ValueError(f"field numbers start at 1: {number!r}")
        if not isinstance(type, Schema) and type not in _KINDS:
            raise ValueError(f"unknown type: {type!r}")
        self.number = number
        self.name = name
        self.type = type
        self.repeated = repeated
        self.kind = wire.SIZED if isinstance(type, Schema) else _KINDS[type]


class Schema:
    def __init__(self, name, fields):
        self.name = name
        self.fields = sorted(fields, key=lambda field: field.number)
        self._by_number = {field.number: field for field in self.fields}
        self._names = {field.name for field in self.fields}
        if len(self._by_number) != len(self.fields) or len(self._names) != len(self.fields):
            raise ValueError(f"{name}: a number or a name occurs twice")

    def encode(self, message):
        for name in message:
            if name not in self._names and name != UNKNOWN:
                raise EncodeError(f"{self.name} has no field {name!r}")
        out = bytearray()
        for field in self.fields:
            if field.name not in message:
                continue
            value = message[field.name]
            for item in value if field.repeated else [value]:
                wire.write_field(out, field.number, field.kind, self._payload(field, item))
        for number, kind, payload in message.get(UNKNOWN, ()):
            wire.write_field(out, number, kind, payload)
        return bytes(out)

    def decode(self, data):
        message = {field.name: [] for field in self.fields if field.repeated}
        unknown = []
        for number, kind, payload in wire.read_fields(bytes(data)):
            field = self._by_number.get(number)
            if field is None:
                unknown.append((number, kind, payload))
                continue
            if kind != field.kind:
                raise DecodeError(f"{self.name}.{field.name} has kind {kind}, not {field.kind}")
            value = self._value(field, payload)
            if field.repeated:
                message[field.name].append(value)
            else:
                message[field.name] = value
        if unknown:
            message[UNKNOWN] = unknown
        return message

    def _payload(self, field, value):
        where = f"{self.name}.{field.name}"
        if isinstance(field.type, Schema):
            return field.type.encode(value)
        if field.type == "bool":
            if not isinstance(value, bool):
                raise EncodeError(f"{where}: {value!r} is not a bool")
            return int(value)
        if field.type in ("int", "uint"):
            low, high = (0, 1 << 64) if field.type == "uint" else (-1 << 63, 1 << 63)
            if not isinstance(value, int) or isinstance(value, bool) or not low <= value < high:
                raise EncodeError(f"{where}: {value!r} is not an {field.type}")
            return value if field.type == "uint" else wire.zigzag(value)
        if field.type == "double":
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise EncodeError(f"{where}: {value!r} is not a number")
            return float(value)
        expected = str if field.type == "text" else bytes
        if not isinstance(value, expected):
            raise EncodeError(f"{where}: {value!r} is not {field.type}")
        return value.encode("utf-8") if field.type == "text" else value

    def _value(self, field, payload):
        if isinstance(field.type, Schema):
            return field.type.decode(payload)
        if field.type == "int":
            return wire.unzigzag(payload)
        if field.type == "bool":
            return payload != 0
        if field.type == "text":
            try:
                return payload.decode("utf-8")
            except UnicodeDecodeError:
                raise DecodeError(f"{self.name}.{field.name} is not UTF-8") from None
        return payload
