import unittest
from datetime import date, timedelta
from itertools import islice

from almanac import Calendar, Event, occurrences, parse

DAY = timedelta(days=1)


class Base(unittest.TestCase):
    def first(self, text, start, count=4):
        """The first days as 'YYYY-MM-DD ...'."""
        days = islice(occurrences(parse(text), date(*map(int, start.split("-")))), count)
        return " ".join(day.isoformat() for day in days)


class DaysAndWeeksTest(Base):
    def test_days(self):
        self.assertEqual(self.first("every 10 days", "2024-02-20", 2), "2024-02-20 2024-03-01")
        self.assertEqual(self.first("every day 2 times", "2024-02-28"), "2024-02-28 2024-02-29")

    def test_weeks(self):
        self.assertEqual(self.first("every 2 weeks on fri, mon", "2024-01-03"), "2024-01-05 2024-01-15 2024-01-19 2024-01-29")
        self.assertEqual(self.first("every week", "2024-01-03", 2), "2024-01-03 2024-01-10")
        self.assertEqual(self.first("every week until 2024-01-10", "2024-01-03"), "2024-01-03 2024-01-10")

    def test_the_end_of_time(self):
        self.assertEqual(self.first("every week on mon, sun", "9999-12-24", 9), "9999-12-26 9999-12-27")

    def test_text(self):
        self.assertEqual(str(parse("Every  1 weeks on SUN,mon, sun 3 times")), "every week on mon, sun 3 times")
        for text in ("every", "every blue moon", "every 0 days", "every week on noon", "every day on mon", "every day 0 times", "weekly"):
            with self.assertRaises(ValueError, msg=text):
                parse(text)

    def test_agenda(self):
        calendar = Calendar()
        calendar.add(Event("gym", date(2024, 1, 1), parse("every week on mon, thu 3 times"), skip=[date(2024, 1, 4)]))
        calendar.add(Event("call", date(2024, 1, 8), parse("every day 2 times")))
        self.assertEqual(
            [(day.day, title) for day, title in calendar.agenda(date(2024, 1, 1), date(2024, 1, 31))],
            [(1, "gym"), (8, "gym"), (8, "call"), (9, "call")],
        )


class MonthTest(Base):
    def test_numbers(self):
        self.assertEqual(self.first("every month on 1, 15", "2024-01-10"), "2024-01-15 2024-02-01 2024-02-15 2024-03-01")
        self.assertEqual(self.first("every month on 15, 1", "2024-01-01", 3), "2024-01-01 2024-01-15 2024-02-01")

    def test_from_the_end(self):
        self.assertEqual(self.first("every month on -1", "2024-01-31"), "2024-01-31 2024-02-29 2024-03-31 2024-04-30")
        self.assertEqual(self.first("every month on -28, -1", "2023-02-01", 3), "2023-02-01 2023-02-28 2023-03-04")

    def test_months_without_the_day_are_left_out(self):
        self.assertEqual(self.first("every month on 31", "2024-01-31", 8), "2024-01-31 2024-03-31 2024-05-31 2024-07-31 2024-08-31 2024-10-31 2024-12-31 2025-01-31")
        self.assertEqual(self.first("every month on 30", "2023-01-01", 3), "2023-01-30 2023-03-30 2023-04-30")

    def test_or_last_day(self):
        self.assertEqual(self.first("every month on 31 or last day", "2024-01-31"), "2024-01-31 2024-02-29 2024-03-31 2024-04-30")
        self.assertEqual(self.first("every month on 30, 31 or last day", "2023-02-01"), "2023-02-28 2023-03-30 2023-03-31 2023-04-30")
        self.assertEqual(self.first("every month on 10 or last day", "2023-02-11", 1), "2023-03-10")

    def test_weekdays(self):
        self.assertEqual(self.first("every month on second tue", "2024-01-01"), "2024-01-09 2024-02-13 2024-03-12 2024-04-09")
        self.assertEqual(self.first("every month on last fri", "2024-02-24"), "2024-03-29 2024-04-26 2024-05-31 2024-06-28")
        self.assertEqual(self.first("every month on first mon, first sun", "2024-09-01"), "2024-09-01 2024-09-02 2024-10-06 2024-10-07")

    def test_a_fifth_weekday(self):
        self.assertEqual(self.first("every month on fifth fri", "2024-01-01"), "2024-03-29 2024-05-31 2024-08-30 2024-11-29")
        self.assertEqual(self.first("every month on fifth fri or last day", "2024-01-01"), "2024-03-29 2024-05-31 2024-08-30 2024-11-29")
        self.assertEqual(self.first("every month on fifth thu, last thu", "2024-01-01", 4), "2024-01-25 2024-02-29 2024-03-28 2024-04-25")

    def test_the_same_day_in_two_ways(self):
        self.assertEqual(self.first("every month on 29, -1, last thu, fifth thu", "2024-02-02", 2), "2024-02-29 2024-03-28")

    def test_without_a_day(self):
        self.assertEqual(self.first("every month", "2024-01-15", 3), "2024-01-15 2024-02-15 2024-03-15")
        self.assertEqual(self.first("every month", "2024-01-31", 3), "2024-01-31 2024-03-31 2024-05-31")

    def test_intervals_count_from_the_month_of_the_start(self):
        self.assertEqual(self.first("every 3 months on -1", "2024-01-31"), "2024-01-31 2024-04-30 2024-07-31 2024-10-31")
        self.assertEqual(self.first("every 2 months on 10", "2024-01-20", 3), "2024-03-10 2024-05-10 2024-07-10")
        self.assertEqual(self.first("every 5 months on 31", "2024-02-01", 3), "2024-07-31 2024-12-31 2025-05-31")
        self.assertEqual(self.first("every 13 months on 5", "2023-12-05", 3), "2023-12-05 2025-01-05 2026-02-05")

    def test_until_and_times(self):
        self.assertEqual(self.first("every month on 1 until 2024-03-01", "2024-01-01", 9), "2024-01-01 2024-02-01 2024-03-01")
        self.assertEqual(self.first("every month on 1 until 2024-02-29", "2024-01-01", 9), "2024-01-01 2024-02-01")
        self.assertEqual(self.first("every month on 31 2 times", "2024-02-01", 9), "2024-03-31 2024-05-31")

    def test_never(self):
        self.assertEqual(self.first("every 12 months on 31", "2024-04-01"), "")
        self.assertEqual(self.first("every 12 months on 30", "2024-02-01"), "")

    def test_the_end_of_time(self):
        self.assertEqual(self.first("every month on 31", "9999-11-05", 9), "9999-12-31")
        self.assertEqual(self.first("every 7 months", "9999-12-31", 9), "9999-12-31")


class YearTest(Base):
    def test_months_and_days(self):
        self.assertEqual(self.first("every year in nov, may on first mon", "2024-06-01"), "2024-11-04 2025-05-05 2025-11-03 2026-05-04")
        self.assertEqual(self.first("every year in may on 31", "2024-05-31", 2), "2024-05-31 2025-05-31")

    def test_leap_days(self):
        self.assertEqual(self.first("every year in feb on 29", "2023-01-01", 3), "2024-02-29 2028-02-29 2032-02-29")
        self.assertEqual(self.first("every 4 years in feb on 29", "2096-02-29", 2), "2096-02-29 2104-02-29")
        self.assertEqual(self.first("every year", "2024-02-29", 3), "2024-02-29 2028-02-29 2032-02-29")
        self.assertEqual(self.first("every year in feb on 29 or last day", "2024-01-01", 5), "2024-02-29 2025-02-28 2026-02-28 2027-02-28 2028-02-29")
        self.assertEqual(self.first("every 100 years in feb on 29", "1900-01-01", 2), "2000-02-29 2400-02-29")

    def test_without_month_or_day(self):
        self.assertEqual(self.first("every year", "2024-03-05", 2), "2024-03-05 2025-03-05")
        self.assertEqual(self.first("every year on last sun", "2024-03-05", 2), "2024-03-31 2025-03-30")
        self.assertEqual(self.first("every year in jan, dec", "2024-03-30", 3), "2024-12-30 2025-01-30 2025-12-30")
        self.assertEqual(self.first("every year in jan, feb", "2024-01-30", 3), "2024-01-30 2025-01-30 2026-01-30")

    def test_intervals_count_from_the_year_of_the_start(self):
        self.assertEqual(self.first("every 2 years in jan, dec on 1", "2024-06-01", 4), "2024-12-01 2026-01-01 2026-12-01 2028-01-01")
        self.assertEqual(self.first("every 2 years in jan on 1", "2024-06-01", 2), "2026-01-01 2028-01-01")

    def test_one_of_the_days_works(self):
        self.assertEqual(self.first("every year in feb, apr on 31, 30", "2024-01-01", 2), "2024-04-30 2025-04-30")

    def test_never(self):
        self.assertEqual(self.first("every 2 years in feb on 29", "2023-01-01"), "")
        self.assertEqual(self.first("every 2 years", "9999-01-01"), "9999-01-01")


class DefinitionTest(unittest.TestCase):
    """Each day of some years is asked whether the rule applies to it."""

    WEEKDAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
    PLACES = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5}

    def applies(self, day, word, or_last):
        last = (day.replace(day=28) + 4 * DAY).replace(day=1) - DAY
        if " " not in word:
            number = int(word)
            if number < 0:
                return (last - day).days + 1 == -number
            return day.day == number or or_last and number > last.day and day == last
        place, weekday = word.split()
        if self.WEEKDAYS[day.weekday()] != weekday:
            return False
        return (day + 7 * DAY).month != day.month if place == "last" else (day.day - 1) // 7 + 1 == self.PLACES[place]

    def test_many_rules(self):
        words = ["1", "28", "29", "30", "31", "-1", "-3", "-28", "first mon", "third sun", "fourth wed", "fifth tue", "last sat", "last thu"]
        seed = 9
        for case in range(120):
            seed = (seed * 6364136223846793005 + 1442695040888963407) % 2**64
            chosen = [words[(seed >> shift) % len(words)] for shift in (20, 26, 32)][: 1 + (seed >> 40) % 3]
            or_last, interval, yearly = (seed >> 45) % 2 == 0, 1 + (seed >> 50) % 5, case % 3 == 0
            start = date(2022, 1, 1) + DAY * ((seed >> 52) % 800)
            months = sorted({1 + (seed >> shift) % 12 for shift in (23, 29)})
            names = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
            text = f"every {interval} " + (f"years in {', '.join(names[m - 1] for m in months)}" if yearly else "months")
            text += " on " + ", ".join(chosen) + (" or last day" if or_last else "")
            try:
                rule = parse(text)
            except ValueError:
                self.assertTrue(yearly and not or_last, text)
                continue
            end = date(2031, 1, 1)
            got = []
            for day in occurrences(rule, start):
                if day >= end:
                    break
                got.append(day)
            expected = []
            day = start
            while day < end:
                if yearly:
                    fits = (day.year - start.year) % interval == 0 and day.month in months
                else:
                    fits = ((day.year - start.year) * 12 + day.month - start.month) % interval == 0
                if fits and any(self.applies(day, word, or_last) for word in chosen):
                    expected.append(day)
                day += DAY
            self.assertEqual(got, expected, f"{text} from {start}")


class TextTest(unittest.TestCase):
    def test_normal_form(self):
        for text, normal in {
            "every 1 months on 15,1": "every month on 15, 1",
            "EVERY 3 month ON  -1 , Last  FRI": "every 3 months on -1, last fri",
            "every month on 31 or last day until 2026-12-31": "every month on 31 or last day until 2026-12-31",
            "every year in nov, may on first mon 10 times": "every year in may, nov on first mon 10 times",
            "every 1 years in dec,dec,jan": "every year in jan, dec",
            "every month on 5, 5, first sun, 05, first sun": "every month on 5, first sun",
            "every year": "every year",
            "every 12 months": "every 12 months",
            "every year on 29 or last day 1 times": "every year on 29 or last day 1 times",
            "every year in jan, feb on 30": "every year in jan, feb on 30",
        }.items():
            rule = parse(text)
            self.assertEqual(str(rule), normal)
            self.assertEqual(parse(normal), rule)
            self.assertEqual(hash(parse(normal)), hash(rule))

    def test_different_rules_are_different(self):
        texts = ["every month", "every year", "every month on 1", "every month on -1", "every month on 1 or last day", "every year in jan",
                 "every year on 1", "every month on first mon", "every month on last mon", "every 2 months", "every month 2 times"]
        rules = [parse(text) for text in texts]
        self.assertEqual(len(set(rules)), len(texts))
        for index, rule in enumerate(rules):
            self.assertNotIn(rule, rules[index + 1 :])

    def test_refused(self):
        for text in (
            "every month on 0", "every month on 32", "every month on -29", "every month on -0", "every month on mon", "every month on first",
            "every month on sixth mon", "every month on first first", "every month on 1 2", "every month on ,", "every month on 1,", "every month on",
            "every month in jan", "every week in jan", "every day in jan", "every month on 1 in jan", "every year on 1 in jan", "every year in",
            "every year in smarch", "every year in jan feb", "every month or last day", "every year in jan or last day", "every week on mon or last day",
            "every day or last day", "every month on last day", "every month on or last day", "every 0 months", "every year on 1 0 times",
            "every month on 1.5", "every month on +1", "every month on 1 until 2024-02-30",
        ):
            with self.assertRaises(ValueError, msg=text):
                parse(text)

    def test_days_that_none_of_the_months_has(self):
        for text in ("every year in feb, apr on 31", "every year in feb on 30", "every 4 years in feb on 30, 31", "every year in jun, sep on 31 3 times"):
            with self.assertRaises(ValueError, msg=text):
                parse(text)
        for text in ("every year in feb on 29", "every year in feb on 31 or last day", "every year in feb, apr on 30", "every year in apr on 31, last fri",
                     "every year in feb on 31, -1", "every year on 31"):
            parse(text)


class CalendarTest(unittest.TestCase):
    def test_skipped_days_are_counted(self):
        event = Event("pay", date(2024, 1, 1), parse("every month on -1 4 times"), skip=[date(2024, 2, 29)])
        self.assertEqual(list(event.days(date(2024, 1, 1), date(2024, 12, 31))), [date(2024, 1, 31), date(2024, 3, 31), date(2024, 4, 30)])

    def test_agenda(self):
        calendar = Calendar()
        calendar.add(Event("meeting", date(2024, 1, 1), parse("every month on second tue")))
        calendar.add(Event("gym", date(2024, 1, 2), parse("every week")))
        calendar.add(Event("tax", date(2020, 5, 1), parse("every year on 31")))
        self.assertEqual(
            [(day.isoformat(), title) for day, title in calendar.agenda(date(2024, 5, 14), date(2024, 6, 1))],
            [("2024-05-14", "meeting"), ("2024-05-14", "gym"), ("2024-05-21", "gym"), ("2024-05-28", "gym"), ("2024-05-31", "tax")],
        )


if __name__ == "__main__":
    unittest.main()
