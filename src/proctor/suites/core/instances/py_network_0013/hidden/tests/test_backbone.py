import unittest

from backbone import Network, islands, report, weak_cables, weak_sites


def network(*cables, sites=""):
    net = Network()
    for site in sites:
        net.add_site(site)
    for number, (one, other) in enumerate(cables):
        net.lay(f"c{number}", one, other)
    return net


def slow(net):
    """The same by trying: take each thing away and count the parts."""

    def parts(without_cable=None, without_site=None):
        left = [site for site in net.sites() if site != without_site]
        seen, count = set(), 0
        for start in left:
            if start in seen:
                continue
            count += 1
            todo = [start]
            while todo:
                site = todo.pop()
                if site in seen:
                    continue
                seen.add(site)
                todo += [n for c, n in net.from_site(site) if c != without_cable and n != without_site]
        return count

    whole = parts()
    cables = sorted(c for c in net.cables() if parts(without_cable=c) > whole)
    sites = sorted(s for s in net.sites() if parts(without_site=s) > whole)
    return cables, sites


class ShapeTest(unittest.TestCase):
    def check(self, net, cables, sites):
        self.assertEqual(weak_cables(net), cables)
        self.assertEqual(weak_sites(net), sites)

    def test_two_rings_with_a_bridge(self):
        self.check(network("ab", "bc", "ca", "cd", "de", "ef", "fd"), ["c3"], ["c", "d"])

    def test_a_line(self):
        self.check(network("ab", "bc", "cd"), ["c0", "c1", "c2"], ["b", "c"])

    def test_a_star_from_its_middle_and_from_a_tip(self):
        self.check(network("ma", "mb", "mc"), ["c0", "c1", "c2"], ["m"])
        self.check(network("am", "bm", "cm"), ["c0", "c1", "c2"], ["m"])

    def test_a_ring(self):
        self.check(network("ab", "bc", "cd", "da"), [], [])

    def test_rings_that_share_a_site(self):
        self.check(network("ab", "bc", "ca", "cd", "de", "ec"), [], ["c"])
        self.check(network("cd", "de", "ec", "ab", "bc", "ca"), [], ["c"])

    def test_nothing(self):
        self.check(network(), [], [])
        self.check(network(sites="ab"), [], [])
        self.check(network("ab"), ["c0"], [])


class NetworkTest(unittest.TestCase):
    def test_a_cable_is_laid_once(self):
        net = network("ab")
        with self.assertRaises(ValueError):
            net.lay("c0", "b", "c")
        self.assertEqual(net.sites(), ["a", "b"])

    def test_cut(self):
        net = network("ab", "bb", "bc")
        net.cut("c1")
        net.cut("c0")
        self.assertEqual(net.cables(), ["c2"])
        self.assertEqual(list(net.from_site("b")), [("c2", "c")])
        self.assertEqual(islands(net), [["a"], ["b", "c"]])

    def test_cables_of_a_simple_network(self):
        self.assertEqual(weak_cables(network("ab", "bc", "ca", "cd", "de", "ef", "fd")), ["c3"])
        self.assertEqual(weak_cables(network("ab", "bc", "cd", "da")), [])
        self.assertEqual(weak_cables(network("ab", "bc", "cd")), ["c0", "c1", "c2"])


class ParallelTest(unittest.TestCase):
    def test_two_cables_between_two_sites(self):
        net = network("ab", "ba")
        self.assertEqual((weak_cables(net), weak_sites(net)), ([], []))
        net.cut("c0")
        self.assertEqual(weak_cables(net), ["c1"])

    def test_in_the_middle_of_a_line(self):
        net = network("ab", "bc", "cb", "cd")
        self.assertEqual(weak_cables(net), ["c0", "c3"])
        self.assertEqual(weak_sites(net), ["b", "c"])

    def test_three_cables(self):
        self.assertEqual(weak_cables(network("ab", "ab", "ab", "bc")), ["c3"])

    def test_a_loop_is_of_no_use(self):
        net = network("aa", "ab", "bb", "bc")
        self.assertEqual(weak_cables(net), ["c1", "c3"])
        self.assertEqual(weak_sites(net), ["b"])
        self.assertEqual(weak_sites(network("aa")), [])


class PartsTest(unittest.TestCase):
    def test_every_part_is_searched(self):
        net = network("ab", "bc", "ca", "xy", "yz", sites="qx")
        self.assertEqual(weak_cables(net), ["c3", "c4"])
        self.assertEqual(weak_sites(net), ["y"])
        self.assertEqual(islands(net), [["a", "b", "c"], ["q"], ["x", "y", "z"]])

    def test_report(self):
        net = network("ab", "bc", sites="z")
        self.assertEqual(report(net), "4 sites, 2 cables, 2 parts\nweak cables: c0, c1\nweak sites: b\n")
        self.assertEqual(report(network("ab", "ab")), "2 sites, 2 cables, 1 part\nweak cables: none\nweak sites: none\n")


class RandomTest(unittest.TestCase):
    def test_agrees_with_trying(self):
        seed = 2
        for case in range(300):
            cables = []
            seed = (seed * 1103515245 + 12345) % 2**31
            size = 2 + (seed >> 7) % 8
            for _ in range((seed >> 13) % 14):
                seed = (seed * 1103515245 + 12345) % 2**31
                cables.append(("abcdefghij"[(seed >> 6) % size], "abcdefghij"[(seed >> 16) % size]))
            net = network(*cables, sites="cge"[: (seed >> 20) % 3])
            self.assertEqual((weak_cables(net), weak_sites(net)), slow(net), f"case {case}: {cables}")


class SizeTest(unittest.TestCase):
    LENGTH = 20_000

    def test_a_long_line(self):
        net = Network()
        for number in range(self.LENGTH):
            net.lay(number, number, number + 1)
        self.assertEqual(weak_cables(net), list(range(self.LENGTH)))
        self.assertEqual(weak_sites(net), list(range(1, self.LENGTH)))

    def test_a_long_ring_with_a_tail(self):
        net = Network()
        for number in range(self.LENGTH):
            net.lay(number, number, (number + 1) % self.LENGTH)
        net.lay("tail", 5, "end")
        self.assertEqual(weak_cables(net), ["tail"])
        self.assertEqual(weak_sites(net), [5])

    def test_each_cable_is_looked_at_a_few_times_only(self):
        class Counting(Network):
            looks = 0

            def from_site(self, site):
                for pair in super().from_site(site):
                    Counting.looks += 1
                    yield pair

        net = Counting()
        for number in range(300):
            net.lay(("spoke", number), "hub", number)
            net.lay(("rim", number), number, (number + 1) % 300)
        self.assertEqual(weak_cables(net), [])
        self.assertEqual(weak_sites(net), [])
        self.assertLessEqual(Counting.looks, 10 * 600)


if __name__ == "__main__":
    unittest.main()
