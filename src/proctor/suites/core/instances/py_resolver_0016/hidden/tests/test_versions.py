import unittest

from gather import Range, Version


class VersionTest(unittest.TestCase):
    RISING = (
        "0.0.1 0.1.0 0.9.0 0.10.0 1.0.0-1 1.0.0-2 1.0.0-10 1.0.0-10.x 1.0.0-alpha 1.0.0-alpha.1 1.0.0-alpha.2 "
        "1.0.0-alpha.11 1.0.0-alpha.beta 1.0.0-beta 1.0.0-beta.2 1.0.0-beta.11 1.0.0-rc 1.0.0-rc.1 1.0.0-rc.1.1 1.0.0 "
        "1.0.1-0 1.0.1 1.2.3 1.10.0 2.0.0-a-b 2.0.0 10.0.0"
    ).split()

    def test_order(self):
        versions = [Version(text) for text in self.RISING]
        for index, low in enumerate(versions):
            for high in versions[index + 1 :]:
                self.assertTrue(low < high and high > low and low != high and low <= high, f"{low} {high}")
        self.assertEqual([str(v) for v in sorted(reversed(versions))], self.RISING)

    def test_equality(self):
        self.assertEqual(Version("1.0.0-rc.1"), Version("1.0.0-rc.1"))
        self.assertEqual(len({Version("1.2.3"), Version("1.2.3"), Version("1.2.3-x")}), 2)

    def test_not_versions(self):
        for text in ("", "1", "1.2", "1.2.3.4", "1.2.x", "1.2.3-", "1.2.3-a..b", "v1.2.3", "1.2.3 ", "-1.2.3"):
            with self.assertRaises(ValueError, msg=text):
                Version(text)


class RangeTest(unittest.TestCase):
    def check(self, text, inside, outside):
        for version in inside.split():
            self.assertIn(Version(version), Range(text), f"{version} in {text}")
        for version in outside.split():
            self.assertNotIn(Version(version), Range(text), f"{version} in {text}")

    def test_comparisons(self):
        self.check(">=1.2.0 <2.0.0", "1.2.0 1.99.0", "1.1.9 2.0.0")
        self.check("1.2.3", "1.2.3", "1.2.4 1.2.2")
        self.check("=1.2", "1.2.0", "1.2.1")
        self.check(">1 <=1.5", "1.0.1 1.5.0", "1.0.0 1.5.1")
        self.check("<1.0.0 || >2", "0.5.0 2.0.1", "1.0.0 2.0.0 1.5.0")
        self.check("*", "0.0.0 99.0.0", "")

    def test_caret_from_one(self):
        self.check("^1.2.3", "1.2.3 1.3.0 1.99.99", "1.2.2 2.0.0 0.2.3")
        self.check("^1", "1.0.0 1.9.0", "0.9.9 2.0.0")
        self.check("^12.3", "12.3.0 12.4.0", "12.2.9 13.0.0")

    def test_caret_below_one(self):
        self.check("^0.2.3", "0.2.3 0.2.9", "0.2.2 0.3.0 1.0.0")
        self.check("^0.0.3", "0.0.3", "0.0.2 0.0.4 0.1.0")
        self.check("^0.2", "0.2.0 0.2.9", "0.1.9 0.3.0")
        self.check("^0.0", "0.0.0 0.0.9", "0.1.0")
        self.check("^0", "0.0.0 0.9.9", "1.0.0")
        self.check("^0.0.0", "0.0.0", "0.0.1")

    def test_tilde(self):
        self.check("~1.2.3", "1.2.3 1.2.99", "1.2.2 1.3.0")
        self.check("~0.2.3", "0.2.3 0.2.4", "0.3.0")
        self.check("~1.2", "1.2.0 1.2.9", "1.3.0")
        self.check("~1", "1.0.0 1.9.0", "2.0.0")

    def test_pre_releases_must_be_asked_for(self):
        self.check("*", "", "1.0.0-rc.1")
        self.check("^1.0", "1.0.0", "1.0.0-rc.1 1.5.0-x 2.0.0-beta")
        self.check("<2.0.0", "1.9.0", "2.0.0-beta 1.0.0-a")
        self.check(">=1.0.0-rc.1", "1.0.0-rc.1 1.0.0-rc.2 1.0.0-rc.10 1.0.0 1.1.0 2.0.0", "1.0.0-beta 1.0.0-rc.0 1.1.0-beta")
        self.check("1.0.0-rc.1", "1.0.0-rc.1", "1.0.0-rc.2 1.0.0")

    def test_pre_releases_and_carets(self):
        self.check("^1.2.3-beta.2", "1.2.3-beta.2 1.2.3-beta.10 1.2.3 1.9.0", "1.2.3-beta.1 1.2.4-beta.3 2.0.0-beta.3 2.0.0")
        self.check("^0.2.0-a", "0.2.0-a 0.2.0-b 0.2.5", "0.3.0-a 0.3.0 0.2.5-a")
        self.check("~1.2.3-a", "1.2.3-b 1.2.9", "1.3.0-a 1.3.0")

    def test_pre_releases_at_upper_ends(self):
        self.check(">=1.0.0 <2.0.0-rc.1", "1.5.0 2.0.0-beta", "2.0.0-rc.1 2.0.0-rc.2 1.5.0-x 1.0.0-x")

    def test_each_side_for_itself(self):
        self.check("^1.0 || 2.0.0-rc.1", "1.5.0 2.0.0-rc.1", "2.0.0-rc.2 2.0.0-beta 1.5.0-x")
        self.check(">=2.0.0-rc.1 <2.0.0 || ^1", "2.0.0-rc.5 1.0.0", "2.0.0 1.9.0-a")

    def test_not_ranges(self):
        for text in ("", " ", "^", "1.2.3.4", "1 ||", "|| 1", ">=x", "=>1", "^*"):
            with self.assertRaises(ValueError, msg=text):
                Range(text)


if __name__ == "__main__":
    unittest.main()
