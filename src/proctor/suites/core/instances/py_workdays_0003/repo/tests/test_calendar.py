import unittest
from datetime import date

from workdays import Calendar, load_holidays


class PlainWeekTest(unittest.TestCase):
    def setUp(self):
        self.calendar = Calendar()

    def test_weekend(self):
        self.assertFalse(self.calendar.is_workday(date(2024, 6, 1)))
        self.assertTrue(self.calendar.is_workday(date(2024, 6, 3)))

    def test_add_over_a_weekend(self):
        self.assertEqual(self.calendar.add(date(2024, 6, 6), 2), date(2024, 6, 10))

    def test_between(self):
        self.assertEqual(self.calendar.between(date(2024, 6, 3), date(2024, 6, 10)), 5)

    def test_load(self):
        days = load_holidays(["# 2024", "2024-12-25..2024-12-26  # Christmas", "", "2024-05-01"])
        self.assertEqual(sorted(days), [date(2024, 5, 1), date(2024, 12, 25), date(2024, 12, 26)])
