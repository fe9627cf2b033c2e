import unittest

from gather import Conflict, Index, Range, Version, resolve


class GatherTest(unittest.TestCase):
    def test_versions(self):
        self.assertLess(Version("1.2.3"), Version("1.10.0"))
        self.assertLess(Version("1.0.0-rc.1"), Version("1.0.0"))
        with self.assertRaises(ValueError):
            Version("1.2")

    def test_ranges(self):
        self.assertIn(Version("1.9.9"), Range("^1.2.3"))
        self.assertNotIn(Version("2.0.0"), Range("^1.2.3"))
        self.assertIn(Version("3.0.0"), Range("<1.0.0 || >2"))

    def test_resolve(self):
        index = Index()
        index.publish("web", "2.1.0", {"json": "^1.2", "log": "*"})
        index.publish("json", "1.2.5")
        index.publish("json", "2.0.0")
        index.publish("log", "0.9.0")
        self.assertEqual(resolve({"web": "^2.0"}, index), {"json": "1.2.5", "log": "0.9.0", "web": "2.1.0"})

    def test_conflict(self):
        index = Index()
        index.publish("a", "1.0.0", {"c": "^1"})
        index.publish("b", "1.0.0", {"c": "^2"})
        index.publish("c", "1.0.0")
        index.publish("c", "2.0.0")
        with self.assertRaises(Conflict):
            resolve({"a": "*", "b": "*"}, index)
