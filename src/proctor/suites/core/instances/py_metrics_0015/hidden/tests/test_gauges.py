import unittest

import gauges


class DefaultTest(unittest.TestCase):
    """The functions on module level: as ever."""

    def setUp(self):
        gauges.reset()

    def test_counter(self):
        hits = gauges.counter("hits_total", "All hits.")
        hits.add(path="/")
        hits.add(2, path="/")
        self.assertEqual(hits.value(path="/"), 3)
        self.assertEqual(hits.value(path="/x"), 0)
        self.assertIn('# HELP hits_total All hits.\n# TYPE hits_total counter\nhits_total{path="/"} 3\n', gauges.render())
        with self.assertRaises(ValueError):
            hits.add(-1)

    def test_the_same_object(self):
        self.assertIs(gauges.counter("hits_total"), gauges.counter("hits_total"))
        with self.assertRaises(ValueError):
            gauges.histogram("hits_total")

    def test_histogram(self):
        sizes = gauges.histogram("sizes", "Sizes.", bounds=[1, 10])
        for value in (0.5, 1, 7, 11):
            sizes.observe(value, to="x")
        self.assertEqual((sizes.count(to="x"), sizes.count()), (4, 0))
        self.assertIn(
            "# HELP sizes Sizes.\n# TYPE sizes histogram\n"
            'sizes_bucket{to="x",le="1"} 2\nsizes_bucket{to="x",le="10"} 3\nsizes_bucket{to="x",le="inf"} 4\n'
            'sizes_sum{to="x"} 19.5\nsizes_count{to="x"} 4\n',
            gauges.render(),
        )
        self.assertIs(gauges.histogram("sizes", bounds=(1, 10)), sizes)
        for bounds in ((1, 11), (), (2, 1)):
            with self.assertRaises(ValueError):
                gauges.histogram("sizes", bounds=bounds)

    def test_timed(self):
        @gauges.timed("job")
        def job(fail):
            """Does it."""
            if fail:
                raise KeyError("x")
            return 5

        self.assertIn("# TYPE job_calls counter\n# TYPE job_failures counter\n", gauges.render())
        self.assertEqual((job(False), job.__name__, job.__doc__), (5, "job", "Does it."))
        with self.assertRaises(KeyError):
            job(True)
        self.assertIn("job_calls 2\n", gauges.render())
        self.assertIn('job_failures{type="KeyError"} 1\n', gauges.render())

    def test_reset_keeps_the_metrics(self):
        kept = gauges.counter("kept")
        kept.add(5)
        gauges.reset()
        self.assertEqual(kept.value(), 0)
        kept.add()
        self.assertIn("kept 1\n", gauges.render())

    def test_escapes_and_order(self):
        odd = gauges.counter("odd")
        odd.add(text='a"b\\c\nd')
        odd.add(text="Z", also=1)
        self.assertIn('odd{also="1",text="Z"} 1\nodd{text="a\\"b\\\\c\\nd"} 1\n', gauges.render())


class RegistryTest(unittest.TestCase):
    def test_the_default_registry(self):
        self.assertIsInstance(gauges.default, gauges.Registry)
        self.assertIs(gauges.counter("same"), gauges.default.counter("same"))
        self.assertIs(gauges.default.histogram("same_sizes"), gauges.histogram("same_sizes"))
        gauges.default.counter("same").add(4)
        self.assertEqual(gauges.render(), gauges.default.render())
        self.assertIn("same 4\n", gauges.render())
        gauges.default.reset()
        self.assertEqual(gauges.counter("same").value(), 0)

    def test_registries_do_not_see_each_other(self):
        one, other = gauges.Registry(), gauges.Registry()
        one.counter("n").add(2)
        other.counter("n").add(3)
        gauges.counter("n").add(5)
        self.assertEqual(one.render(), "# TYPE n counter\nn 2\n")
        self.assertEqual(other.render(), "# TYPE n counter\nn 3\n")
        one.reset()
        self.assertEqual((one.counter("n").value(), other.counter("n").value()), (0, 3))
        self.assertIsNot(one.counter("n"), other.counter("n"))

    def test_resetting_the_default_leaves_others_alone(self):
        one = gauges.Registry()
        one.counter("n").add(2)
        one.histogram("h").observe(3)
        gauges.reset()
        self.assertEqual((one.counter("n").value(), one.histogram("h").count()), (2, 1))

    def test_the_same_name_as_another_kind(self):
        one, other = gauges.Registry(), gauges.Registry()
        one.counter("n", "Number.").add()
        other.histogram("n", bounds=(1,)).observe(1)
        self.assertEqual(one.render(), "# HELP n Number.\n# TYPE n counter\nn 1\n")
        self.assertEqual(
            other.render(), '# TYPE n histogram\nn_bucket{le="1"} 1\nn_bucket{le="inf"} 1\nn_sum 1\nn_count 1\n'
        )
        with self.assertRaises(ValueError):
            one.histogram("n")
        with self.assertRaises(ValueError):
            other.histogram("n", bounds=(2,))

    def test_histograms_do_not_see_each_other(self):
        one, other = gauges.Registry(), gauges.Registry()
        one.histogram("h", bounds=(1, 2)).observe(1)
        other.histogram("h", bounds=(5,)).observe(7)
        self.assertEqual((one.histogram("h", bounds=(1, 2)).count(), other.histogram("h", bounds=(5,)).count()), (1, 1))

    def test_a_new_registry_is_empty(self):
        gauges.counter("something").add()
        self.assertEqual(gauges.Registry().render(), "")

    def test_timed(self):
        one, other = gauges.Registry(), gauges.Registry()

        @one.timed("job")
        def job():
            raise OSError

        @other.timed("job")
        def calm():
            return "done"

        for _ in range(2):
            with self.assertRaises(OSError):
                job()
        self.assertEqual(calm(), "done")
        self.assertEqual(
            one.render(), '# TYPE job_calls counter\njob_calls 2\n# TYPE job_failures counter\njob_failures{type="OSError"} 2\n'
        )
        self.assertEqual(other.render(), "# TYPE job_calls counter\njob_calls 1\n# TYPE job_failures counter\n")
        self.assertNotIn('type="OSError"', gauges.render())


class LabelTest(unittest.TestCase):
    def test_on_every_series(self):
        shop = gauges.Registry(labels={"app": "shop"})
        shop.counter("n").add(path="/")
        shop.counter("n").add(_early=1)
        shop.counter("n").add()
        self.assertEqual(shop.counter("n").value(path="/"), 1)
        self.assertEqual(
            shop.render(), '# TYPE n counter\nn{_early="1",app="shop"} 1\nn{app="shop"} 1\nn{app="shop",path="/"} 1\n'
        )

    def test_on_histograms(self):
        shop = gauges.Registry(labels={"app": "shop"})
        shop.histogram("h", bounds=(1,)).observe(4, z=1)
        self.assertEqual(
            shop.render(),
            "# TYPE h histogram\n"
            'h_bucket{app="shop",z="1",le="1"} 0\nh_bucket{app="shop",z="1",le="inf"} 1\n'
            'h_sum{app="shop",z="1"} 4\nh_count{app="shop",z="1"} 1\n',
        )

    def test_nearer_labels_win(self):
        shop = gauges.Registry(labels={"app": "shop", "zone": "eu"})
        shop.counter("n").add(app="other")
        self.assertEqual(shop.render(), '# TYPE n counter\nn{app="other",zone="eu"} 1\n')

    def test_a_clash_within_one_registry(self):
        shop = gauges.Registry(labels={"app": "shop"})
        shop.counter("n").add()
        shop.counter("n").add(app="shop")
        with self.assertRaisesRegex(ValueError, r"\bn\b"):
            shop.render()

    def test_labels_are_copied(self):
        labels = {"app": "a"}
        shop = gauges.Registry(labels=labels)
        labels["app"] = "b"
        shop.counter("n").add()
        self.assertEqual(shop.render(), '# TYPE n counter\nn{app="a"} 1\n')

    def test_the_default_registry_has_none(self):
        gauges.reset()
        gauges.counter("bare").add()
        self.assertIn("\nbare 1\n", gauges.render())


class OnePageTest(unittest.TestCase):
    def setUp(self):
        self.shop = gauges.Registry(labels={"app": "shop"})
        self.blog = gauges.Registry(labels={"app": "blog"})

    def test_one_head_and_all_series(self):
        self.shop.counter("n").add(2)
        self.blog.counter("n", "Number.").add(3)
        self.blog.counter("a").add()
        self.shop.counter("z", "Last.")
        expected = (
            '# TYPE a counter\na{app="blog"} 1\n'
            '# HELP n Number.\n# TYPE n counter\nn{app="blog"} 3\nn{app="shop"} 2\n'
            "# HELP z Last.\n# TYPE z counter\n"
        )
        self.assertEqual(gauges.render(self.shop, self.blog), expected)
        self.assertEqual(gauges.render(self.blog, self.shop), expected)

    def test_the_first_help_that_is_there(self):
        self.shop.counter("n", "One.")
        self.blog.counter("n", "Other.")
        self.assertIn("# HELP n One.\n", gauges.render(self.shop, self.blog))
        self.assertIn("# HELP n Other.\n", gauges.render(self.blog, self.shop))

    def test_one_is_as_its_own_page(self):
        self.shop.counter("n").add()
        self.assertEqual(gauges.render(self.shop), self.shop.render())

    def test_different_kinds_are_refused(self):
        self.shop.counter("mixed")
        self.blog.histogram("mixed")
        with self.assertRaisesRegex(ValueError, "mixed"):
            gauges.render(self.shop, self.blog)

    def test_different_bounds_are_refused(self):
        self.shop.histogram("sizes", bounds=(1, 2))
        self.blog.histogram("sizes", bounds=(1, 3))
        with self.assertRaisesRegex(ValueError, "sizes"):
            gauges.render(self.shop, self.blog)

    def test_the_same_series_twice_is_refused(self):
        twin = gauges.Registry(labels={"app": "shop"})
        self.shop.counter("n").add(path="/")
        twin.counter("n").add(path="/x")
        self.assertEqual(
            gauges.render(self.shop, twin), '# TYPE n counter\nn{app="shop",path="/"} 1\nn{app="shop",path="/x"} 1\n'
        )
        twin.counter("n").add(path="/")
        with self.assertRaisesRegex(ValueError, r"\bn\b"):
            gauges.render(self.shop, twin)

    def test_with_the_default_one(self):
        gauges.reset()
        gauges.counter("together").add()
        self.shop.counter("together").add()
        self.assertIn('together 1\ntogether{app="shop"} 1\n', gauges.render(self.shop, gauges.default))

    def test_histograms_of_both(self):
        for registry, value in ((self.shop, 1), (self.blog, 9)):
            registry.histogram("h", bounds=(5,)).observe(value)
        self.assertEqual(
            gauges.render(self.shop, self.blog),
            "# TYPE h histogram\n"
            'h_bucket{app="blog",le="5"} 0\nh_bucket{app="blog",le="inf"} 1\nh_sum{app="blog"} 9\nh_count{app="blog"} 1\n'
            'h_bucket{app="shop",le="5"} 1\nh_bucket{app="shop",le="inf"} 1\nh_sum{app="shop"} 1\nh_count{app="shop"} 1\n',
        )


if __name__ == "__main__":
    unittest.main()
