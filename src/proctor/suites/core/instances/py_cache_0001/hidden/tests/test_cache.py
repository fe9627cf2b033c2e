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

    def test_get_keeps_an_entry_alive_and_peek_does_not(self):
        cache = Larder(2)
        cache.put("a", 1)
        cache.put("b", 2)
        cache.get("a")
        self.assertEqual(cache.peek("b"), 2)
        cache.put("c", 3)
        self.assertEqual(list(cache), ["a", "c"])

    def test_a_heavy_entry_pushes_out_as_many_as_it_needs(self):
        cache = Larder(10, weigh=len)
        for word in ("one", "two", "six", "x"):
            cache.put(word, word)
        cache.put("long", "longer")
        self.assertEqual(list(cache), ["six", "x", "long"])
        self.assertEqual(cache.weight, 10)

    def test_evictions_are_told_oldest_first(self):
        told = []
        cache = Larder(3, on_evict=lambda key, value: told.append((key, value)))
        for key in "abc":
            cache.put(key, key * 2)
        cache.resize(1)
        self.assertEqual(told, [("a", "aa"), ("b", "bb")])

    def test_pop_frees_the_weight_and_is_not_an_eviction(self):
        told = []
        cache = Larder(9, weigh=len, on_evict=lambda key, value: told.append(key))
        cache.put("a", "aaaa")
        self.assertEqual(cache.pop("a"), "aaaa")
        self.assertEqual(cache.pop("a", "gone"), "gone")
        self.assertEqual((cache.weight, told), (0, []))

    def test_a_falsy_value_is_a_value(self):
        cache = Larder(3)
        cache.put("none", None)
        cache.put("zero", 0)
        self.assertIsNone(cache.get("none", "default"))
        self.assertEqual(cache.pop("zero", "default"), 0)

    def test_an_entry_heavier_than_the_cache_is_refused(self):
        cache = Larder(4, weigh=len)
        cache.put("a", "aa")
        self.assertFalse(cache.put("b", "bbbbb"))
        self.assertEqual(list(cache), ["a"])


class ReplaceTest(unittest.TestCase):
    def test_replacing_does_not_add_up(self):
        cache = Larder(3)
        for _ in range(5):
            cache.put("a", "x")
        cache.put("b", "y")
        self.assertEqual((len(cache), cache.weight), (2, 2))

    def test_replacing_takes_the_new_weight(self):
        cache = Larder(20, weigh=len)
        cache.put("a", "a" * 12)
        cache.put("b", "b" * 4)
        cache.put("a", "a" * 3)
        self.assertEqual(cache.weight, 7)
        cache.put("a", "a" * 9)
        self.assertEqual(cache.weight, 13)

    def test_replacing_counts_as_use(self):
        cache = Larder(4)
        for key in "abc":
            cache.put(key, 1)
        cache.put("a", 2)
        self.assertEqual(list(cache), ["b", "c", "a"])
        cache.put("d", 1)
        cache.put("e", 1)
        self.assertEqual(list(cache), ["c", "a", "d", "e"])

    def test_the_room_of_the_old_value_is_free_for_the_new_one(self):
        told = []
        cache = Larder(10, weigh=len, on_evict=lambda key, value: told.append(key))
        cache.put("old", "oooo")
        cache.put("a", "a" * 6)
        cache.put("a", "A" * 5)
        self.assertEqual(told, [])
        self.assertEqual(list(cache), ["old", "a"])

    def test_replacing_with_something_heavier_pushes_others_out_but_never_itself(self):
        told = []
        cache = Larder(10, weigh=len, on_evict=lambda key, value: told.append((key, value)))
        cache.put("a", "aaa")
        cache.put("b", "bbb")
        cache.put("c", "ccc")
        cache.put("a", "A" * 6)
        self.assertEqual(told, [("b", "bbb")])
        self.assertEqual(list(cache), ["c", "a"])
        self.assertEqual(cache.weight, 9)

    def test_replacing_with_something_too_heavy_drops_the_stale_value(self):
        told = []
        cache = Larder(5, weigh=len, on_evict=lambda key, value: told.append(key))
        cache.put("a", "aa")
        cache.put("b", "bb")
        self.assertFalse(cache.put("a", "a" * 6))
        self.assertNotIn("a", cache)
        self.assertEqual((cache.weight, told), (2, []))
        cache.put("c", "ccc")
        self.assertEqual(list(cache), ["b", "c"])

    def test_a_refused_weight_leaves_everything_as_it_was(self):
        cache = Larder(5, weigh=lambda value: value)
        cache.put("a", 2)
        with self.assertRaises(ValueError):
            cache.put("a", -1)
        self.assertEqual((cache.get("a"), cache.weight), (2, 2))

    def test_long_histories_agree_with_a_plain_model(self):
        seed = 7
        cache = Larder(40, weigh=lambda value: value)
        model = []  # [key, weight], oldest first
        for _ in range(3000):
            seed = (seed * 1103515245 + 12345) % 2**31
            key, weight, action = (seed >> 4) % 12, (seed >> 9) % 15, (seed >> 15) % 4
            if action == 0:
                found = [entry for entry in model if entry[0] == key]
                self.assertEqual(cache.get(key), found[0][1] if found else None)
                model = [entry for entry in model if entry[0] != key] + found
            elif action == 1 and seed % 5 == 0:
                cache.pop(key)
                model = [entry for entry in model if entry[0] != key]
            else:
                cache.put(key, weight)
                model = [entry for entry in model if entry[0] != key]
                while sum(entry[1] for entry in model) + weight > 40:
                    model.pop(0)
                model.append([key, weight])
            self.assertEqual([[k, cache.peek(k)] for k in cache], model)
            self.assertEqual(cache.weight, sum(entry[1] for entry in model))


if __name__ == "__main__":
    unittest.main()
