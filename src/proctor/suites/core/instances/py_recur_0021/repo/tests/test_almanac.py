import unittest
from datetime import date
from itertools import islice

from almanac import Calendar, Event, occurrences, parse


class AlmanacTest(unittest.TestCase):
    def first(self, text, start, count=4):
        return [day.isoformat() for day in islice(occurrences(parse(text), start), count)]

    def test_days(self):
        self.assertEqual(self.first("every 10 days", date(2024, 2, 20), 2), ["2024-02-20", "2024-03-01"])

    def test_weeks(self):
        self.assertEqual(
            self.first("every 2 weeks on fri, mon", date(2024, 1, 3)), ["2024-01-05", "2024-01-15", "2024-01-19", "2024-01-29"]
        )

    def test_text(self):
        self.assertEqual(str(parse("Every  1 weeks on SUN,mon 3 times")), "every week on mon, sun 3 times")
        with self.assertRaises(ValueError):
            parse("every blue moon")

    def test_agenda(self):
        calendar = Calendar()
        calendar.add(Event("gym", date(2024, 1, 1), parse("every week on mon, thu"), skip=[date(2024, 1, 4)]))
        self.assertEqual(calendar.agenda(date(2024, 1, 1), date(2024, 1, 8)), [(date(2024, 1, 1), "gym"), (date(2024, 1, 8), "gym")])
