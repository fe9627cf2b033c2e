from datetime import date, timedelta


def _day(text, number):
    try:
        year, month, day = text.strip().split("-")
        return date(int(year), int(month), int(day))
    except ValueError:
        raise ValueError(f"line {number}: not a date: {text.strip()!r}") from None


def load_holidays(lines):
    """The set of days that the lines name."""
    days = set()
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        first, dots, last = text.partition("..")
        start = _day(first, number)
        end = _day(last, number) if dots else start
        if end < start:
            raise ValueError(f"line {number}: the range ends before it starts")
        while start <= end:
            days.add(start)
            start += timedelta(days=1)
    return days
