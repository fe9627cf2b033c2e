import unittest

from turnstile import Turnstile


class Clock:
    def __init__(self):
        self.now = 1_000_000

    def __call__(self):
        return self.now


class TurnstileTest(unittest.TestCase):
    def setUp(self):
        self.clock = Clock()
        self.gate = Turnstile(limit=5, period=60_000, clock=self.clock)

    def test_a_burst(self):
        self.assertEqual([self.gate.admit("a") for _ in range(6)], [True] * 5 + [False])
        self.assertTrue(self.gate.admit("b"))

    def test_a_patient_client(self):
        for _ in range(5):
            self.gate.admit("a")
        for _ in range(10):
            self.clock.now += 12_000
            self.assertTrue(self.gate.admit("a"))
            self.assertFalse(self.gate.admit("a"))
