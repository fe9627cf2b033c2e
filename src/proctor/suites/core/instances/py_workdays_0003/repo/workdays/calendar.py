from datetime import timedelta

DAY = timedelta(days=1)


class Calendar:
    def __init__(self, holidays=(), weekend=(5, 6)):
        self.holidays = frozenset(holidays)
        self.weekend = frozenset(weekend)
        if len(self.weekend & set(range(7))) == 7:
            raise ValueError("a week without working days")

    def is_workday(self, day):
        return day.weekday() not in self.weekend and day not in self.holidays

    def add(self, day, n):
        weeks, left = divmod(n, 7 - len(self.weekend))
        day += weeks * 7 * DAY
        while left or not self.is_workday(day):
            day += DAY
            if self.is_workday(day) and left:
                left -= 1
        return day

    def between(self, first, last):
        count = 0
        while first < last:
            if self.is_workday(first):
                count += 1
            first += DAY
        return count

    def roll(self, day, rule="following"):
        if self.is_workday(day):
            return day
        if rule == "following":
            return self.add(day, 1)
        if rule == "preceding":
            return self.add(day, -1)
        if rule == "modified":
            rolled = self.add(day, 1)
            return self.add(day, -1) if rolled.month > day.month else rolled
        raise ValueError(f"unknown rule: {rule!r}")
