import math
import unittest

from parcel import UNKNOWN, DecodeError, EncodeError, Field, Schema

POINT = Schema("point", [Field(1, "x", "int"), Field(2, "y", "int")])
FULL = Schema(
    "full",
    [
        Field(9, "points", POINT, repeated=True),
        Field(1, "u", "uint"),
        Field(2, "i", "int"),
        Field(3, "b", "bool"),
        Field(4, "d", "double"),
        Field(5, "t", "text"),
        Field(6, "raw", "bytes"),
        Field(7, "p", POINT),
        Field(8, "many", "int", repeated=True),
    ],
)
EMPTY = {"points": [], "many": []}
OLD_POINT = Schema("point", [Field(1, "x", "int")])
OLD = Schema("full", [Field(5, "t", "text"), Field(7, "p", OLD_POINT)])


def unhex(text):
    return bytes.fromhex(text.replace(" ", ""))


class Base(unittest.TestCase):
    def decoded(self, text, schema=FULL):
        message = schema.decode(unhex(text))
        return {key: value for key, value in message.items() if value != []}

    def refuse(self, *texts, schema=FULL):
        for text in texts:
            with self.assertRaises(DecodeError, msg=text):
                schema.decode(unhex(text))


class RoundTripTest(Base):
    def test_everything(self):
        message = {
            "u": 2**64 - 1,
            "i": 5,
            "b": True,
            "d": -0.1,
            "t": "gr\u00fcn \U0001f34e",
            "raw": bytes(range(256)),
            "p": {"x": 1, "y": 2},
            "many": [1, 2, 3],
            "points": [{"x": 1}, {}, {"y": 2}],
        }
        self.assertEqual(FULL.decode(FULL.encode(message)), message)

    def test_absent_fields(self):
        self.assertEqual(FULL.encode({}), b"")
        self.assertEqual(FULL.decode(b""), EMPTY)

    def test_layout(self):
        self.assertEqual(FULL.encode({"u": 300}).hex(), "04ac02")
        self.assertEqual(FULL.encode({"t": "hi", "b": False}).hex(), "0c00" + "16026869")
        self.assertEqual(FULL.encode({"d": 1.0}).hex(), "11000000000000f03f")

    def test_order_is_by_number(self):
        one = FULL.encode({"t": "x", "u": 1, "many": [3, 2]})
        other = FULL.encode({"many": [3, 2], "u": 1, "t": "x"})
        self.assertEqual(one, other)
        self.assertEqual(one.hex(), "0401" + "160178" + "2006" + "2004")

    def test_the_last_one_counts(self):
        self.assertEqual(self.decoded("0401 0402"), {"u": 2})

    def test_any_number_is_true(self):
        self.assertEqual(self.decoded("0c05"), {"b": True})


class ZigzagTest(Base):
    PAIRS = [
        (0, "00"), (-1, "01"), (1, "02"), (-2, "03"), (2, "04"), (63, "7e"), (-64, "7f"), (64, "8001"), (-65, "8101"),
        (2**31 - 1, "feffffff0f"), (-(2**31), "ffffffff0f"),
        (2**63 - 1, "feffffffffffffffff01"), (-(2**63), "ffffffffffffffffff01"),
    ]

    def test_encode(self):
        for number, payload in self.PAIRS:
            self.assertEqual(FULL.encode({"i": number}).hex(), "08" + payload, number)

    def test_decode(self):
        for number, payload in self.PAIRS:
            self.assertEqual(self.decoded("08" + payload), {"i": number})

    def test_there_and_back(self):
        numbers = [sign * (1 << bit) + more for bit in range(62) for sign in (1, -1) for more in (-1, 0, 1)]
        message = dict(EMPTY, many=numbers, p={"x": -7, "y": -8})
        self.assertEqual(FULL.decode(FULL.encode(message)), message)

    def test_limits(self):
        for name, value in (("i", 2**63), ("i", -(2**63) - 1), ("u", 2**64), ("u", -1)):
            with self.assertRaises(EncodeError):
                FULL.encode({name: value})


class VarintTest(Base):
    def test_longer_forms_are_read(self):
        self.assertEqual(self.decoded("04 8100"), {"u": 1})
        self.assertEqual(self.decoded("8400 05"), {"u": 5})
        self.assertEqual(self.decoded("04 81808080808080808000"), {"u": 1})
        self.assertEqual(self.decoded("04 80808080808080808000"), {"u": 0})

    def test_the_largest_number(self):
        self.assertEqual(self.decoded("04 ffffffffffffffffff01"), {"u": 2**64 - 1})

    def test_more_than_64_bits(self):
        self.refuse("04 ffffffffffffffffff02", "04 80808080808080808002", "04 ffffffffffffffffff7f")

    def test_more_than_ten_bytes(self):
        self.refuse("04 8180808080808080808000", "04 8080808080808080808001", "04 " + "80" * 40 + "01")

    def test_in_tags_and_lengths(self):
        self.refuse("8480808080808080808000 01", "16 8180808080808080808000 78", "16 ffffffffffffffffff02 78")

    def test_in_unknown_fields(self):
        self.refuse("f802 ffffffffffffffffff02")


class BrokenTest(Base):
    def test_every_proper_prefix_is_refused_or_shorter(self):
        fields = [{"t": "hello"}, {"raw": b"12345"}, {"d": 2.5}, {"u": 2**40}, {"p": {"x": 2**30}}]
        for field in fields:
            data = FULL.encode(field)
            for length in range(1, len(data)):
                with self.assertRaises(DecodeError, msg=f"{field}, {length} bytes"):
                    FULL.decode(data[:length])

    def test_truncated_deep_inside(self):
        # The outer length is fine, the inner one reaches beyond the end of its message.
        inner = Schema("inner", [Field(1, "t", "text")])
        outer = Schema("outer", [Field(1, "inner", inner), Field(2, "n", "uint")])
        self.refuse("06 03 06 05 61 08 01", schema=outer)

    def test_truncated_unknown_fields(self):
        self.refuse("fa02 05 6161", "f902 0000", "f802", "fa02")

    def test_kinds(self):
        self.refuse("05 0000000000000000", "14 01", "07", "fb02 00", "26 02 0202")

    def test_number_zero(self):
        self.refuse("00 01", "02 00")

    def test_not_utf_8(self):
        self.refuse("16 02 c328")

    def test_names_and_types(self):
        for message in ({"nope": 1}, {"u": True}, {"b": 1}, {"t": b"x"}, {"raw": "x"}, {"d": "1"}, {"p": {"z": 1}}, {"u": 1.0}):
            with self.assertRaises(EncodeError, msg=str(message)):
                FULL.encode(message)


class UnknownTest(Base):
    def through_old(self, data):
        return OLD.encode(OLD.decode(data))

    def test_nothing_unknown(self):
        self.assertNotIn(UNKNOWN, OLD.decode(FULL.encode({"t": "x"})))

    def test_kept_and_written_after_the_known_ones(self):
        data = FULL.encode({"u": 1, "t": "x", "many": [-1, 4], "d": 0.5})
        message = OLD.decode(data)
        message["t"] = "longer"
        self.assertEqual(FULL.decode(OLD.encode(message)), dict(EMPTY, u=1, t="longer", many=[-1, 4], d=0.5))
        self.assertTrue(OLD.encode(message).startswith(unhex("1606") + b"longer"))

    def test_in_the_order_in_which_they_came(self):
        data = unhex("a003 02" + "04 01" + "a003 01" + "16 01 61")
        self.assertEqual(self.through_old(data).hex(), "160161" + "a00302" + "0401" + "a00301")

    def test_at_every_depth(self):
        data = FULL.encode({"p": {"x": 1, "y": 2}, "u": 3})
        message = OLD.decode(data)
        message["p"]["x"] = -9
        self.assertEqual(FULL.decode(OLD.encode(message)), dict(EMPTY, p={"x": -9, "y": 2}, u=3))

    def test_exact_bytes_of_numbers(self):
        for raw in ("04 8100", "8400 05", "84808000 ff00", "04 80808080808080808000"):
            self.assertEqual(self.through_old(unhex(raw)), unhex(raw))

    def test_exact_bytes_of_lengths(self):
        for raw in ("fa02 8300 616263", "fa8200 03 616263", "fa02 8000"):
            self.assertEqual(self.through_old(unhex(raw)), unhex(raw))

    def test_exact_bytes_of_doubles(self):
        for raw in ("f902 efbeadde0000f8ff", "f902 0000000000000080"):
            self.assertEqual(self.through_old(unhex(raw)), unhex(raw))

    def test_exact_bytes_at_depth(self):
        raw = unhex("1e 06" + "0402" + "fa02 8000" + "f801 8000")
        message = OLD.decode(raw)
        self.assertEqual(message["p"]["x"], 1)
        self.assertEqual(OLD.encode(message), raw)

    def test_decoding_from_other_byte_types(self):
        raw = unhex("160161 fa02 8100 61")
        for kind in (bytearray, memoryview):
            self.assertEqual(OLD.encode(OLD.decode(kind(raw))), raw)

    def test_a_decoded_message_does_not_depend_on_the_buffer(self):
        buffer = bytearray(unhex("fa02 01 61"))
        message = OLD.decode(buffer)
        buffer[-1] = 0x62
        self.assertEqual(OLD.encode(message), unhex("fa02 01 61"))

    def test_nan_in_a_known_field(self):
        self.assertTrue(math.isnan(FULL.decode(FULL.encode({"d": math.nan}))["d"]))


class SchemaTest(unittest.TestCase):
    def test_bad_schemas(self):
        for make in (
            lambda: Field(0, "x", "int"),
            lambda: Field(1, "x", "float"),
            lambda: Schema("s", [Field(1, "x", "int"), Field(1, "y", "int")]),
            lambda: Schema("s", [Field(1, "x", "int"), Field(2, "x", "int")]),
        ):
            with self.assertRaises(ValueError):
                make()


if __name__ == "__main__":
    unittest.main()
