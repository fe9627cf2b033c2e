import unittest

import gauges


class GaugesTest(unittest.TestCase):
    def setUp(self):
        gauges.reset()

    def test_counter(self):
        hits = gauges.counter("hits_total", "All hits.")
        hits.add(path="/")
        hits.add(2, path="/")
        self.assertEqual(hits.value(path="/"), 3)
        self.assertIn('# HELP hits_total All hits.\n# TYPE hits_total counter\nhits_total{path="/"} 3\n', gauges.render())

    def test_the_same_object(self):
        self.assertIs(gauges.counter("hits_total"), gauges.counter("hits_total"))
        with self.assertRaises(ValueError):
            gauges.histogram("hits_total")

    def test_timed(self):
        @gauges.timed("job")
        def job(fail):
            if fail:
                raise KeyError("x")
            return 5

        self.assertEqual(job(False), 5)
        with self.assertRaises(KeyError):
            job(True)
        self.assertIn("job_calls 2\n", gauges.render())
        self.assertIn('job_failures{type="KeyError"} 1\n', gauges.render())
