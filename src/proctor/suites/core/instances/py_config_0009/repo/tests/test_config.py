import unittest

from strata import Config, ConfigError

DEFAULTS = """
# what everybody gets
[server]
host = "localhost"
port = 8080
url  = "http://${server.host}:${server.port}/"
tags = ["a", "b"]

[server.tls]
enabled = false
"""


class ConfigTest(unittest.TestCase):
    def setUp(self):
        self.config = Config()
        self.config.add_text("defaults", DEFAULTS)

    def test_values(self):
        self.assertEqual(self.config["server.port"], 8080)
        self.assertEqual(self.config["server.url"], "http://localhost:8080/")
        self.assertIs(self.config["server.tls.enabled"], False)
        self.assertIsNone(self.config.get("server.nothing"))

    def test_later_layers_win(self):
        self.config.add("site", {"server": {"host": "example.org", "tls": {"enabled": True}}})
        self.assertEqual(self.config["server.host"], "example.org")
        self.assertEqual(self.config["server.port"], 8080)
        self.assertIs(self.config["server.tls.enabled"], True)

    def test_lists_grow(self):
        self.config.add_text("site", '[server]\ntags+ = ["c"]')
        self.assertEqual(self.config["server.tags"], ["a", "b", "c"])

    def test_bad_text(self):
        with self.assertRaises(ConfigError):
            self.config.add_text("site", "port: 80")
