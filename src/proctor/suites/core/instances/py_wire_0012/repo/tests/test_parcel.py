import unittest

from parcel import UNKNOWN, DecodeError, EncodeError, Field, Schema

READING = Schema("reading", [Field(1, "sensor", "text"), Field(2, "count", "uint"), Field(3, "samples", "double", repeated=True)])
OLD = Schema("reading", [Field(1, "sensor", "text")])


class ParcelTest(unittest.TestCase):
    def test_there_and_back(self):
        message = {"sensor": "s1", "count": 300, "samples": [1.5, -2.0]}
        self.assertEqual(READING.decode(READING.encode(message)), message)

    def test_layout(self):
        self.assertEqual(READING.encode({"count": 300}).hex(), "08ac02")

    def test_unknown_fields_are_kept(self):
        data = READING.encode({"sensor": "s1", "count": 300, "samples": []})
        old = OLD.decode(data)
        self.assertIn(UNKNOWN, old)
        old["sensor"] = "s2"
        self.assertEqual(READING.decode(OLD.encode(old)), {"sensor": "s2", "count": 300, "samples": []})

    def test_errors(self):
        with self.assertRaises(EncodeError):
            READING.encode({"count": -1})
        with self.assertRaises(DecodeError):
            READING.decode(b"\x08")
