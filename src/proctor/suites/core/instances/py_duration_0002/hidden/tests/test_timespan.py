import unittest

from timespan import parse, render

SECOND, MINUTE, HOUR, DAY, WEEK = 1000, 60000, 3600000, 86400000, 604800000


class ParseTest(unittest.TestCase):
    def check(self, text, expected):
        value = parse(text)
        self.assertEqual(value, expected, text)
        self.assertIs(type(value), int, text)

    def refuse(self, *texts):
        for text in texts:
            try:
                value = parse(text)
            except ValueError:
                continue
            self.fail(f"parse({text!r}) gave {value!r}")

    def test_single_parts(self):
        self.check("2h", 2 * HOUR)
        self.check("90s", 90 * SECOND)
        self.check("1.5m", 90 * SECOND)
        self.check("3w", 3 * WEEK)
        self.check("007d", 7 * DAY)

    def test_milliseconds(self):
        self.check("250ms", 250)
        self.check("1ms", 1)
        self.check("1s 1ms", 1001)
        self.check("5m5ms", 5 * MINUTE + 5)

    def test_minutes_are_still_minutes(self):
        self.check("250m", 250 * MINUTE)
        self.check("1m 1s", 61 * SECOND)

    def test_several_parts(self):
        self.check("1h30m", 90 * MINUTE)
        self.check("1w 2d 3h 4m 5s 6ms", WEEK + 2 * DAY + 3 * HOUR + 4 * MINUTE + 5006)
        self.check("\t1h  30m ", 90 * MINUTE)

    def test_signs(self):
        self.check("-1h 30m", -90 * MINUTE)
        self.check("+2d", 2 * DAY)
        self.check(" -250ms", -250)

    def test_zero(self):
        self.check("0", 0)
        self.check(" 0 ", 0)
        self.check("0s", 0)
        self.check("0h 0m", 0)

    def test_decimals_in_the_last_part(self):
        self.check("1m 1.5s", 61500)
        self.check("0.001s", 1)
        self.check("1.000s", 1000)
        self.check("0.1d", 8640000)
        self.check("2.0ms", 2)

    def test_exact_where_floats_are_not(self):
        self.check("4.35s", 4350)
        self.check("9007199254740993ms", 9007199254740993)
        self.check("1.001h", 3603600)

    def test_decimals_elsewhere_are_refused(self):
        self.refuse("1.5h 10s", "0.5m 1ms")

    def test_finer_than_a_millisecond_is_refused(self):
        self.refuse("0.0005s", "1.5ms", "1h 0.1ms")

    def test_garbage_is_refused(self):
        self.refuse("3h4x", "10 minutes, i think 5s", "x1h", "1h,2m", "1h and 2m", "1hour", "5sec", "1h;", "5 m s")

    def test_nothing_is_refused(self):
        self.refuse("", " ", "-", "+", "s", "ms")

    def test_a_number_needs_its_unit(self):
        self.refuse("5", "1h 30", "10 5s", "0.0", "-5")

    def test_blanks_inside_a_part_are_refused(self):
        self.refuse("1 h", "5 ms", "1h 5 m", "1 .5s", "5m s")

    def test_a_blank_after_the_sign_is_refused(self):
        self.refuse("- 5s", "+\t5s")

    def test_other_line_breaking_white_space_is_refused(self):
        self.refuse("1h\n30m", "1h\n")

    def test_units_out_of_order_are_refused(self):
        self.refuse("30m 1h", "1ms 1s", "1s1m", "1d 1w")

    def test_repeated_units_are_refused(self):
        self.refuse("1m 1m", "5s5s", "0h 0h")

    def test_signs_elsewhere_are_refused(self):
        self.refuse("--5s", "1h -30m", "1h+30m", "5-s", "+-5s")

    def test_half_numbers_are_refused(self):
        self.refuse("1.s", ".5s", "1..5s", "1.5.5s", "1e3s", "1_000s", "1,5s")

    def test_only_ascii_digits_are_digits(self):
        self.refuse("\u0665s", "1\u0660h")


class RenderTest(unittest.TestCase):
    def test_render(self):
        self.assertEqual(render(90 * MINUTE), "1h 30m")
        self.assertEqual(render(1001), "1s 1ms")
        self.assertEqual(render(0), "0")
        self.assertEqual(render(8 * DAY), "1w 1d")

    def test_negative(self):
        self.assertEqual(render(-90 * SECOND), "-1m 30s")
        self.assertEqual(render(-1), "-1ms")
        self.assertEqual(render(-WEEK), "-1w")

    def test_there_and_back(self):
        value = 1
        for step in range(60):
            value = value * 3 + step
            self.assertEqual(parse(render(value)), value)
            self.assertEqual(parse(render(-value)), -value)


if __name__ == "__main__":
    unittest.main()
