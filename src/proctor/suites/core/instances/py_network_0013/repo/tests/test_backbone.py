import unittest

from backbone import Network, islands, weak_cables, weak_sites


class BackboneTest(unittest.TestCase):
    def network(self, *cables):
        net = Network()
        for number, (one, other) in enumerate(cables):
            net.lay(f"c{number}", one, other)
        return net

    def test_two_rings_with_a_bridge(self):
        net = self.network("ab", "bc", "ca", "cd", "de", "ef", "fd")
        self.assertEqual(weak_cables(net), ["c3"])

    def test_a_site_in_the_middle(self):
        net = self.network("ab", "bc", "ca", "cd")
        self.assertIn("c", weak_sites(net))

    def test_islands(self):
        self.assertEqual(islands(self.network("ab", "cd", "bx")), [["a", "b", "x"], ["c", "d"]])
