import unittest
from datetime import date, timedelta

from workdays import Calendar, load_holidays

XMAS = [date(2024, 12, 25), date(2024, 12, 26), date(2025, 1, 1)]
DAY = timedelta(days=1)


class PlainWeekTest(unittest.TestCase):
    def setUp(self):
        self.calendar = Calendar()

    def test_weekend(self):
        self.assertFalse(self.calendar.is_workday(date(2024, 6, 1)))
        self.assertTrue(self.calendar.is_workday(date(2024, 6, 3)))

    def test_add_over_a_weekend(self):
        self.assertEqual(self.calendar.add(date(2024, 6, 6), 2), date(2024, 6, 10))
        self.assertEqual(self.calendar.add(date(2024, 6, 6), 12), date(2024, 6, 24))

    def test_add_from_a_weekend(self):
        self.assertEqual(self.calendar.add(date(2024, 6, 1), 1), date(2024, 6, 3))
        self.assertEqual(self.calendar.add(date(2024, 6, 2), 1), date(2024, 6, 3))
        self.assertEqual(self.calendar.add(date(2024, 6, 1), 5), date(2024, 6, 7))

    def test_subtract_from_a_weekend(self):
        self.assertEqual(self.calendar.add(date(2024, 6, 1), -1), date(2024, 5, 31))
        self.assertEqual(self.calendar.add(date(2024, 6, 2), -1), date(2024, 5, 31))
        self.assertEqual(self.calendar.add(date(2024, 6, 2), -5), date(2024, 5, 27))

    def test_nothing_added_is_the_day_itself(self):
        for day in (date(2024, 6, 1), date(2024, 6, 2), date(2024, 6, 3)):
            self.assertEqual(self.calendar.add(day, 0), day)

    def test_between(self):
        self.assertEqual(self.calendar.between(date(2024, 6, 3), date(2024, 6, 10)), 5)
        self.assertEqual(self.calendar.between(date(2024, 6, 3), date(2024, 6, 3)), 0)
        self.assertEqual(self.calendar.between(date(2024, 6, 1), date(2024, 6, 3)), 0)

    def test_another_weekend(self):
        gulf = Calendar(weekend=(4, 5))
        self.assertEqual(gulf.add(date(2024, 6, 6), 1), date(2024, 6, 9))
        six_days = Calendar(weekend=(6,))
        self.assertEqual(six_days.add(date(2024, 6, 7), 7), date(2024, 6, 15))

    def test_a_week_without_working_days_is_refused(self):
        with self.assertRaises(ValueError):
            Calendar(weekend=range(7))


class HolidayTest(unittest.TestCase):
    def setUp(self):
        self.calendar = Calendar(XMAS)

    def test_add_over_holidays(self):
        self.assertEqual(self.calendar.add(date(2024, 12, 23), 5), date(2025, 1, 2))
        self.assertEqual(self.calendar.add(date(2024, 12, 24), 1), date(2024, 12, 27))
        self.assertEqual(self.calendar.add(date(2024, 12, 20), 10), date(2025, 1, 8))

    def test_subtract_over_holidays(self):
        self.assertEqual(self.calendar.add(date(2024, 12, 30), -5), date(2024, 12, 19))
        self.assertEqual(self.calendar.add(date(2024, 12, 27), -1), date(2024, 12, 24))

    def test_start_on_a_holiday(self):
        self.assertEqual(self.calendar.add(date(2024, 12, 25), 1), date(2024, 12, 27))
        self.assertEqual(self.calendar.add(date(2024, 12, 26), -1), date(2024, 12, 24))

    def test_a_holiday_on_a_weekend_is_not_counted_twice(self):
        calendar = Calendar([date(2024, 6, 1), date(2024, 6, 2)])
        self.assertEqual(calendar.add(date(2024, 5, 31), 1), date(2024, 6, 3))
        self.assertEqual(calendar.add(date(2024, 6, 3), -6), date(2024, 5, 24))

    def test_between_backwards_is_negative(self):
        self.assertEqual(self.calendar.between(date(2025, 1, 3), date(2024, 12, 23)), -6)
        self.assertEqual(self.calendar.between(date(2024, 12, 23), date(2025, 1, 3)), 6)

    def test_a_closed_fortnight(self):
        closed = load_holidays(["2024-07-29..2024-08-09"])
        calendar = Calendar(closed)
        self.assertEqual(calendar.add(date(2024, 7, 26), 1), date(2024, 8, 12))
        self.assertEqual(calendar.add(date(2024, 8, 12), -3), date(2024, 7, 24))
        self.assertEqual(calendar.add(date(2024, 7, 25), 6), date(2024, 8, 16))

    def test_add_undoes_itself_on_working_days(self):
        day = date(2024, 11, 1)
        while day < date(2025, 2, 1):
            if self.calendar.is_workday(day):
                for n in range(1, 30):
                    there = self.calendar.add(day, n)
                    self.assertTrue(self.calendar.is_workday(there))
                    self.assertEqual(self.calendar.add(there, -n), day)
                    self.assertEqual(self.calendar.between(day, there), n)
            day += DAY

    def test_every_step_lands_on_the_next_working_day(self):
        workdays = [d for d in (date(2024, 10, 1) + DAY * i for i in range(200)) if self.calendar.is_workday(d)]
        start = date(2024, 12, 14)
        later = [d for d in workdays if d > start]
        earlier = [d for d in reversed(workdays) if d < start]
        for n in range(1, 40):
            self.assertEqual(self.calendar.add(start, n), later[n - 1])
            self.assertEqual(self.calendar.add(start, -n), earlier[n - 1])


class RollTest(unittest.TestCase):
    def setUp(self):
        self.calendar = Calendar(XMAS)

    def test_a_working_day_stays(self):
        for rule in ("following", "preceding", "modified"):
            self.assertEqual(self.calendar.roll(date(2024, 12, 24), rule), date(2024, 12, 24))

    def test_following(self):
        self.assertEqual(self.calendar.roll(date(2024, 12, 25), "following"), date(2024, 12, 27))
        self.assertEqual(self.calendar.roll(date(2024, 11, 30), "following"), date(2024, 12, 2))

    def test_preceding(self):
        self.assertEqual(self.calendar.roll(date(2024, 12, 26), "preceding"), date(2024, 12, 24))
        self.assertEqual(self.calendar.roll(date(2024, 12, 1), "preceding"), date(2024, 11, 29))

    def test_modified_inside_a_month(self):
        self.assertEqual(self.calendar.roll(date(2024, 12, 7), "modified"), date(2024, 12, 9))

    def test_modified_at_the_end_of_a_month(self):
        self.assertEqual(self.calendar.roll(date(2024, 11, 30), "modified"), date(2024, 11, 29))
        self.assertEqual(self.calendar.roll(date(2024, 8, 31), "modified"), date(2024, 8, 30))

    def test_modified_at_the_end_of_a_year(self):
        self.assertEqual(self.calendar.roll(date(2022, 12, 31), "modified"), date(2022, 12, 30))

    def test_an_unknown_rule_is_refused(self):
        with self.assertRaises(ValueError):
            self.calendar.roll(date(2024, 12, 25), "nearest")


class LoadTest(unittest.TestCase):
    def test_days_ranges_and_comments(self):
        days = load_holidays(["# 2024", "2024-12-25..2024-12-26  # Christmas", "", "2024-05-01"])
        self.assertEqual(sorted(days), [date(2024, 5, 1), date(2024, 12, 25), date(2024, 12, 26)])

    def test_a_bad_line_is_named(self):
        with self.assertRaisesRegex(ValueError, "line 2"):
            load_holidays(["2024-05-01", "2024-13-01"])


if __name__ == "__main__":
    unittest.main()
