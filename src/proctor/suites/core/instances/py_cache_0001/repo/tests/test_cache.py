import unittest

from larder import Larder


class BasicsTest(unittest.TestCase):
    def test_what_was_put_can_be_got(self):
        cache = Larder(3)
        self.assertTrue(cache.put("a", 1))
        self.assertEqual(cache.get("a"), 1)
        self.assertIsNone(cache.get("b"))
        self.assertEqual(cache.get("b", 7), 7)

    def test_the_oldest_entry_goes_first(self):
        cache = Larder(2)
        for key in "abc":
            cache.put(key, key.upper())
        self.assertEqual(list(cache), ["b", "c"])

    def test_get_keeps_an_entry_alive(self):
        cache = Larder(2)
        cache.put("a", 1)
        cache.put("b", 2)
        cache.get("a")
        cache.put("c", 3)
        self.assertEqual(list(cache), ["a", "c"])


if __name__ == "__main__":
    unittest.main()
