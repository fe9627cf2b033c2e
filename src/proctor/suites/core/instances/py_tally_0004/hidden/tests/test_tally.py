import json
import random
import statistics
import unittest
from fractions import Fraction

from tally import Groups, Tally


def exact(values, population=False):
    numbers = [Fraction(value) for value in values]
    mean = sum(numbers) / len(numbers)
    return float(sum((n - mean) ** 2 for n in numbers) / (len(numbers) - (0 if population else 1)))


def series(seed, count, offset, spread):
    chance = random.Random(seed)
    return [offset + spread * chance.random() for _ in range(count)]


class Base(unittest.TestCase):
    def assertNear(self, got, expected, relative=1e-6):
        self.assertIsNotNone(got)
        self.assertLessEqual(abs(got - expected), relative * abs(expected), f"{got!r} is not near {expected!r}")


class SmallNumbersTest(Base):
    def test_variance_and_mean(self):
        tally = Tally([2, 4, 4, 4, 5, 5, 7, 9])
        self.assertEqual(tally.count, 8)
        self.assertNear(tally.mean, 5)
        self.assertNear(tally.variance(population=True), 4)
        self.assertNear(tally.deviation(population=True), 2)
        self.assertNear(tally.variance(), 32 / 7)
        self.assertEqual((tally.minimum, tally.maximum), (2, 9))

    def test_undefined_numbers_are_none(self):
        self.assertIsNone(Tally().mean)
        self.assertIsNone(Tally().variance(population=True))
        self.assertIsNone(Tally([1]).variance())
        self.assertEqual(Tally([1]).variance(population=True), 0)
        self.assertIsNone(Tally([1]).deviation())

    def test_infinite_and_nan_are_refused_and_leave_no_trace(self):
        tally = Tally([1, 2])
        for value in (float("inf"), float("nan")):
            with self.assertRaises(ValueError):
                tally.push(value)
        self.assertEqual(tally.count, 2)
        self.assertNear(tally.mean, 1.5)

    def test_groups(self):
        groups = Groups()
        groups.push("a", 1)
        groups.push("b", 3)
        groups.push("b", 5)
        self.assertNear(groups.total().mean, 3)
        self.assertEqual(groups.labels(), ["a", "b"])
        self.assertEqual(len(groups), 2)


class LargeOffsetTest(Base):
    def test_timestamps(self):
        values = [1700000000000.25, 1700000000000.5, 1700000000000.75]
        tally = Tally(values)
        self.assertNear(tally.variance(), 0.0625)
        self.assertNear(tally.deviation(), 0.25)

    def test_equal_values_have_no_variance(self):
        tally = Tally([1e9 + 0.1] * 1000)
        self.assertGreaterEqual(tally.variance(), 0)
        self.assertLess(tally.variance(), 1e-6)

    def test_pressure(self):
        values = series(3, 5000, 101325.0, 0.5)
        self.assertNear(Tally(values).variance(), exact(values))
        self.assertNear(Tally(values).mean, statistics.fmean(values), 1e-14)

    def test_negative_offsets(self):
        values = series(4, 2000, -4e8, 2.0)
        self.assertNear(Tally(values).variance(population=True), exact(values, True))

    def test_whole_numbers_too_large_for_a_float(self):
        values = [10**15 + n for n in (4, 7, 13, 16)]
        self.assertNear(Tally(values).variance(), 30)


class MergeTest(Base):
    def parts(self, values, sizes):
        start, parts = 0, []
        for size in sizes:
            parts.append(values[start : start + size])
            start += size
        return parts

    def test_merged_parts_are_as_good_as_the_whole(self):
        values = series(5, 3000, 1e9, 1.0)
        expected = exact(values)
        total = Tally()
        for part in self.parts(values, [1, 2, 0, 997, 1500, 500]):
            total.merge(Tally(part))
        self.assertEqual(total.count, 3000)
        self.assertNear(total.variance(), expected)
        self.assertNear(total.mean, statistics.fmean(values), 1e-14)
        self.assertEqual((total.minimum, total.maximum), (min(values), max(values)))

    def test_parts_that_lie_apart(self):
        low, high = series(6, 40, 1e9, 1.0), series(7, 160, 1e9 + 500, 1.0)
        self.assertNear((Tally(low) + Tally(high)).variance(), exact(low + high))
        self.assertNear((Tally(high) + Tally(low)).variance(population=True), exact(low + high, True))

    def test_merging_leaves_the_other_alone(self):
        first, second = Tally([1, 2]), Tally([10, 20])
        both = first + second
        self.assertEqual((first.count, second.count, both.count), (2, 2, 4))
        self.assertNear(second.variance(), 50)
        self.assertNear(first.mean, 1.5)
        first.merge(second)
        self.assertNear(second.mean, 15)
        self.assertNear(first.variance(), both.variance())

    def test_merging_with_itself_counts_twice(self):
        values = [1e9 + n for n in (1, 2, 4)]
        tally = Tally(values)
        tally.merge(tally)
        self.assertEqual(tally.count, 6)
        self.assertNear(tally.variance(), exact(values * 2))

    def test_merging_with_nothing(self):
        tally = Tally([3, 5])
        tally.merge(Tally())
        self.assertNear(tally.variance(), 2)
        empty = Tally()
        empty.merge(tally)
        self.assertNear(empty.variance(), 2)
        self.assertEqual(empty.minimum, 3)
        self.assertIsNone((Tally() + Tally()).mean)

    def test_groups_of_workers(self):
        workers = []
        everything = []
        for seed in range(5):
            groups = Groups()
            for value in series(seed, 50, 1.7e12, 4.0):
                groups.push("beat", value)
                everything.append(value)
            groups.push(f"only-{seed}", 1.0)
            workers.append(groups)
        total = Groups()
        for groups in workers:
            total.merge(groups)
        self.assertEqual(len(total), 6)
        self.assertNear(total["beat"].variance(), exact(everything), 1e-3)
        self.assertEqual(total.total().count, 255)


class DumpTest(Base):
    def round_trip(self, tally):
        return Tally.load(json.loads(json.dumps(tally.dump())))

    def test_nothing_is_lost(self):
        values = series(8, 500, 1e9, 1.0)
        back = self.round_trip(Tally(values))
        self.assertNear(back.variance(), exact(values))
        self.assertEqual((back.count, back.minimum, back.maximum), (500, min(values), max(values)))

    def test_a_loaded_tally_goes_on(self):
        values = series(9, 400, 1e9, 1.0)
        tally = self.round_trip(Tally(values[:100]))
        for value in values[100:]:
            tally.push(value)
        self.assertNear(tally.variance(), exact(values))

    def test_an_empty_tally(self):
        back = self.round_trip(Tally())
        self.assertIsNone(back.mean)
        back.push(4)
        self.assertNear(back.mean, 4)

    def test_groups(self):
        groups = Groups()
        for value in (1e9 + 1, 1e9 + 2, 1e9 + 6):
            groups.push("x", value)
        back = Groups.load(json.loads(json.dumps(groups.dump())))
        self.assertNear(back["x"].variance(), 7)


class OldDumpTest(Base):
    OLD = {"count": 4, "sum": 20.0, "squares": 120.0, "min": 2, "max": 8}

    def test_with_and_without_a_format(self):
        for extra in ({}, {"format": 1}):
            tally = Tally.load(dict(self.OLD, **extra))
            self.assertEqual((tally.count, tally.minimum, tally.maximum), (4, 2, 8))
            self.assertNear(tally.mean, 5)
            self.assertNear(tally.variance(population=True), 5)

    def test_an_old_dump_of_nothing(self):
        tally = Tally.load({"count": 0, "sum": 0.0, "squares": 0.0, "min": None, "max": None})
        self.assertIsNone(tally.mean)
        tally.push(3)
        tally.push(5)
        self.assertNear(tally.variance(), 2)
        self.assertEqual(tally.minimum, 3)

    def test_old_and_new_merge(self):
        # The old one holds 2, 4, 6, 8.
        tally = Tally.load(dict(self.OLD)) + Tally([1, 3])
        self.assertNear(tally.variance(), exact([2, 4, 6, 8, 1, 3]))
        other = Tally([1, 3])
        other.merge(Tally.load(dict(self.OLD, format=1)))
        self.assertNear(other.mean, 4)

    def test_an_old_dump_that_had_gone_bad_is_not_negative(self):
        tally = Tally.load(
            {"count": 4, "sum": 6800000000003.0, "squares": 1.1560000000010199e25, "min": 1.7e12, "max": 1.7e12}
        )
        self.assertGreaterEqual(tally.variance(), 0)
        self.assertGreaterEqual(tally.deviation(), 0)

    def test_loading_does_not_change_the_dump(self):
        data = dict(self.OLD)
        Tally.load(data)
        self.assertEqual(data, self.OLD)

    def test_an_unknown_format_is_refused(self):
        for version in (0, 99, "x"):
            with self.assertRaises(ValueError):
                Tally.load(dict(self.OLD, format=version))


if __name__ == "__main__":
    unittest.main()
