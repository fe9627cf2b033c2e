import unittest
from fractions import Fraction

from turnstile import Turnstile


class Clock:
    def __init__(self, now=1_000_000):
        self.now = now

    def __call__(self):
        return self.now


class Base(unittest.TestCase):
    def gate(self, limit, period, empty=None):
        self.clock = Clock()
        gate = Turnstile(limit=limit, period=period, clock=self.clock)
        if empty is not None:
            self.assertTrue(gate.admit(empty, limit))
        return gate


class BurstTest(Base):
    def test_a_bucket_starts_full(self):
        gate = self.gate(5, 60_000)
        self.assertEqual([gate.admit("a") for _ in range(6)], [True] * 5 + [False])
        self.assertTrue(gate.admit("b"))
        self.assertEqual(len(gate), 2)

    def test_a_refusal_costs_nothing(self):
        gate = self.gate(5, 60_000)
        self.assertTrue(gate.admit("a", 3))
        self.assertFalse(gate.admit("a", 3))
        self.assertTrue(gate.admit("a", 2))

    def test_a_rest_does_not_fill_beyond_the_limit(self):
        gate = self.gate(5, 60_000, empty="a")
        self.clock.now += 10 * 60_000
        self.assertEqual([gate.admit("a") for _ in range(6)], [True] * 5 + [False])

    def test_a_patient_client(self):
        gate = self.gate(5, 60_000, empty="a")
        for _ in range(10):
            self.clock.now += 12_000
            self.assertTrue(gate.admit("a"))
            self.assertFalse(gate.admit("a"))

    def test_bad_numbers_are_refused(self):
        for limit, period in ((0, 1), (1, 0), (-1, 5), (1.5, 10), ("3", 10)):
            with self.assertRaises(ValueError):
                Turnstile(limit, period)
        gate = self.gate(5, 60_000)
        for cost in (6, -1):
            with self.assertRaises(ValueError):
                gate.admit("a", cost)
            with self.assertRaises(ValueError):
                gate.retry_after("a", cost)


class PollingTest(Base):
    def admissions(self, gate, step, until, also=lambda: None):
        """At which milliseconds from now the client gets in."""
        start, times = self.clock.now, []
        while self.clock.now - start < until:
            self.clock.now += step
            also()
            if gate.admit("a"):
                times.append(self.clock.now - start)
        return times

    def test_asking_all_the_time_is_as_good_as_waiting(self):
        for step in (1, 7, 100, 999):
            gate = self.gate(5, 60_000, empty="a")
            times = self.admissions(gate, step, 60_000)
            expected = [-(-12_000 * n // step) * step for n in range(1, 6)]
            self.assertEqual([t for t in times if t <= 60_000], [t for t in expected if t <= 60_000], f"step {step}")

    def test_a_rate_that_does_not_divide_the_period(self):
        gate = self.gate(7, 1000, empty="a")
        times = self.admissions(gate, 1, 3000)
        self.assertEqual(times, [-(-1000 * n // 7) for n in range(1, 22)])

    def test_more_than_one_token_per_millisecond(self):
        gate = self.gate(2500, 1000, empty="a")
        self.clock.now += 1
        self.assertEqual([gate.admit("a") for _ in range(3)], [True, True, False])
        self.clock.now += 1
        self.assertEqual([gate.admit("a") for _ in range(4)], [True, True, True, False])

    def test_questions_are_free(self):
        gate = self.gate(5, 60_000, empty="a")
        times = self.admissions(gate, 100, 36_000, also=lambda: gate.retry_after("a", 5))
        self.assertEqual(times, [12_000, 24_000, 36_000])

    def test_sweeping_is_free(self):
        gate = self.gate(5, 60_000, empty="a")
        times = self.admissions(gate, 1000, 36_000, also=gate.sweep)
        self.assertEqual(times, [12_000, 24_000, 36_000])

    def test_exactly_its_share_in_the_long_run(self):
        gate = self.gate(3, 1000, empty="a")
        admitted = 0
        for step in range(1, 40_000):
            self.clock.now += 1 + step % 13
            admitted += gate.admit("a")
        elapsed = sum(1 + step % 13 for step in range(1, 40_000))
        self.assertEqual(admitted, elapsed * 3 // 1000)


class RetryTest(Base):
    def test_nothing_to_wait_for(self):
        gate = self.gate(5, 60_000)
        self.assertEqual(gate.retry_after("a", 5), 0)
        self.assertEqual(gate.retry_after("nobody"), 0)
        gate.admit("a", 3)
        self.assertEqual(gate.retry_after("a", 2), 0)

    def test_even_numbers(self):
        gate = self.gate(5, 60_000, empty="a")
        self.assertEqual(gate.retry_after("a"), 12_000)
        self.clock.now += 5_000
        self.assertEqual(gate.retry_after("a"), 7_000)
        self.assertEqual(gate.retry_after("a", 5), 55_000)

    def test_it_is_the_first_millisecond_that_works(self):
        for limit, period in ((7, 1000), (3, 1000), (13, 97), (999, 1000), (1, 1), (6, 100_003)):
            for cost in sorted({1, limit // 2 + 1, limit}):
                for pause in (0, 1, 5):
                    gate = self.gate(limit, period, empty="a")
                    self.clock.now += pause
                    wait = gate.retry_after("a", cost)
                    exact = Fraction(cost * period, limit) - pause
                    label = f"{limit} per {period}, cost {cost}, pause {pause}"
                    self.assertEqual(wait, max(0, -(-exact.numerator // exact.denominator)), label)
                    if wait > 0:
                        self.clock.now += wait - 1
                        self.assertFalse(gate.admit("a", cost), label)
                        self.clock.now += 1
                    self.assertTrue(gate.admit("a", cost), label)

    def test_it_is_a_whole_number(self):
        gate = self.gate(7, 1000, empty="a")
        self.assertIsInstance(gate.retry_after("a"), int)

    def test_large_numbers_stay_exact(self):
        gate = self.gate(3, 10**17 + 1, empty="a")
        wait = gate.retry_after("a", 2)
        self.assertEqual(wait, -(-2 * (10**17 + 1) // 3))
        self.clock.now += wait - 1
        self.assertFalse(gate.admit("a", 2))
        self.clock.now += 1
        self.assertTrue(gate.admit("a", 2))


class ClockTest(Base):
    def test_a_clock_that_steps_back_takes_nothing(self):
        gate = self.gate(5, 60_000)
        gate.admit("a", 2)
        self.clock.now -= 3_600_000
        self.assertEqual([gate.admit("a") for _ in range(4)], [True, True, True, False])

    def test_and_gives_nothing_until_it_has_caught_up(self):
        gate = self.gate(5, 60_000, empty="a")
        self.clock.now -= 100_000
        self.assertFalse(gate.admit("a"))
        self.clock.now += 99_000
        self.assertFalse(gate.admit("a"))
        self.clock.now += 1_000
        self.assertFalse(gate.admit("a"))
        self.clock.now += 12_000
        self.assertTrue(gate.admit("a"))

    def test_the_time_to_catch_up_is_part_of_the_wait(self):
        gate = self.gate(5, 60_000, empty="a")
        self.clock.now -= 1_000
        self.assertEqual(gate.retry_after("a"), 13_000)
        self.clock.now += 13_000
        self.assertTrue(gate.admit("a"))


class SweepTest(Base):
    def test_full_buckets_are_forgotten(self):
        gate = self.gate(5, 60_000)
        gate.admit("a", 1)
        gate.admit("b", 5)
        self.assertEqual(gate.sweep(), 0)
        self.clock.now += 12_000
        self.assertEqual(gate.sweep(), 1)
        self.assertEqual(len(gate), 1)
        self.clock.now += 48_000
        self.assertEqual(gate.sweep(), 1)
        self.assertEqual(len(gate), 0)

    def test_a_bucket_that_is_nearly_full_is_kept(self):
        gate = self.gate(2, 1001, empty="a")
        self.clock.now += 1000
        self.assertEqual(gate.sweep(), 0)
        self.clock.now += 1
        self.assertEqual(gate.sweep(), 1)


if __name__ == "__main__":
    unittest.main()
