import copy
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


def stack(*layers):
    config = Config()
    for number, layer in enumerate(layers, 1):
        if isinstance(layer, str):
            config.add_text(f"layer {number}", layer)
        else:
            config.add(f"layer {number}", layer)
    return config


class BasicsTest(unittest.TestCase):
    def test_values(self):
        config = stack(DEFAULTS)
        self.assertEqual(config["server.port"], 8080)
        self.assertEqual(config["server.url"], "http://localhost:8080/")
        self.assertIs(config["server.tls.enabled"], False)
        self.assertEqual(config.get("server.nothing", 5), 5)
        with self.assertRaises(KeyError):
            config["server.port.deeper"]

    def test_contains(self):
        config = stack(DEFAULTS)
        self.assertIn("server.tls", config)
        self.assertNotIn("server.tls.key", config)

    def test_later_layers_win(self):
        config = stack(DEFAULTS, {"server": {"host": "example.org", "tls": {"enabled": True}}}, "[server]\nport = 1")
        self.assertEqual(config["server.host"], "example.org")
        self.assertEqual(config["server.port"], 1)
        self.assertIs(config["server.tls.enabled"], True)

    def test_tables_and_values_replace_each_other(self):
        config = stack({"a": {"x": 1}, "b": 2}, {"a": 3, "b": {"y": 4}})
        self.assertEqual(config.as_dict(), {"a": 3, "b": {"y": 4}})

    def test_bad_text_is_named(self):
        with self.assertRaisesRegex(ConfigError, "site, line 2"):
            Config().add_text("site", "[a]\nport: 80")
        with self.assertRaisesRegex(ConfigError, "site, line 1"):
            Config().add_text("site", "port = eighty")


class MergeTest(unittest.TestCase):
    def test_null_takes_away(self):
        config = stack(DEFAULTS, {"server": {"tls": None}})
        self.assertNotIn("server.tls", config)
        self.assertNotIn("server.tls.enabled", config)
        config.add("again", {"server": {"tls": {"key": "k"}}})
        self.assertEqual(config["server.tls"], {"key": "k"})

    def test_null_in_a_new_table(self):
        config = stack({"a": {"b": None, "c": {"d": None, "e": 1}}})
        self.assertEqual(config.as_dict(), {"a": {"c": {"e": 1}}})

    def test_null_inside_a_list_stays(self):
        self.assertEqual(stack({"a": [None, 1]})["a"], [None, 1])

    def test_lists_grow(self):
        config = stack(DEFAULTS, '[server]\ntags+ = ["c"]', {"server": {"tags+": ["d"]}})
        self.assertEqual(config["server.tags"], ["a", "b", "c", "d"])

    def test_lists_are_made_by_growing(self):
        self.assertEqual(stack({"x": {"tags+": [1]}}).as_dict(), {"x": {"tags": [1]}})
        self.assertEqual(stack({"x": {}}, {"x": {"y": {"tags+": [1]}}}).as_dict(), {"x": {"y": {"tags": [1]}}})

    def test_only_lists_grow(self):
        with self.assertRaises(ConfigError):
            stack({"a": 1}, {"a+": [2]})
        with self.assertRaises(ConfigError):
            stack({"a": [1]}, {"a+": 2})

    def test_a_refused_layer_changes_nothing(self):
        config = stack({"a": 1, "b": [1]})
        with self.assertRaises(ConfigError):
            config.add("bad", {"a": 2, "b+": 3})
        self.assertEqual(config.as_dict(), {"a": 1, "b": [1]})


class IsolationTest(unittest.TestCase):
    LAYER = {"server": {"tags": ["a"], "opts": {"deep": {"list": [[1]]}}, "more": [{"x": 1}]}}

    def test_layers_are_not_changed_by_later_layers(self):
        first, second = copy.deepcopy(self.LAYER), {"server": {"tags+": ["b"], "opts": {"deep": {"n": 1}}}}
        keep = copy.deepcopy((first, second))
        config = stack(first, second, {"server": {"tags+": ["c"], "opts": {"deep": {"n": None}}}})
        self.assertEqual((first, second), keep)
        self.assertEqual(config["server.tags"], ["a", "b", "c"])

    def test_changing_a_layer_afterwards_has_no_effect(self):
        layer = copy.deepcopy(self.LAYER)
        added = {"server": {"tags+": [["z"]]}}
        config = stack(layer, added)
        layer["server"]["tags"].append("later")
        layer["server"]["opts"]["deep"]["list"][0].append(2)
        layer["server"]["more"][0]["x"] = 5
        added["server"]["tags+"][0].append("later")
        self.assertEqual(config["server.tags"], ["a", ["z"]])
        self.assertEqual(config["server.opts.deep.list"], [[1]])
        self.assertEqual(config["server.more"], [{"x": 1}])

    def test_what_was_handed_out_belongs_to_the_caller(self):
        layer = copy.deepcopy(self.LAYER)
        config = stack(layer)
        config["server.tags"].append("mine")
        config["server"]["opts"]["deep"]["list"][0].append(2)
        config.as_dict()["server"]["more"][0]["x"] = 5
        self.assertEqual(config.as_dict(), self.LAYER)
        self.assertEqual(layer, self.LAYER)

    def test_what_was_handed_out_does_not_change(self):
        config = stack(DEFAULTS)
        tags, everything = config["server.tags"], config.as_dict()
        config.add("more", {"server": {"tags+": ["c"], "port": 1}})
        self.assertEqual(tags, ["a", "b"])
        self.assertEqual(everything["server"]["port"], 8080)

    def test_a_list_taken_by_reference_is_a_copy(self):
        config = stack({"a": [1], "b": "${a}"})
        config["b"].append(2)
        self.assertEqual((config["a"], config["b"]), ([1], [1]))


class ReferenceTest(unittest.TestCase):
    def test_a_later_layer_changes_what_a_reference_means(self):
        config = stack(DEFAULTS, {"server": {"port": 9000}})
        self.assertEqual(config["server.url"], "http://localhost:9000/")
        config.add("more", {"server": {"host": "h"}})
        self.assertEqual(config["server.url"], "http://h:9000/")
        self.assertEqual(config.as_dict()["server"]["url"], "http://h:9000/")

    def test_a_reference_to_something_that_comes_later(self):
        config = Config()
        config.add("site", {"mail": "${user.name}@example.org"})
        config.add("user", {"user": {"name": "ada"}})
        self.assertEqual(config["mail"], "ada@example.org")

    def test_references_to_references(self):
        config = stack({"a": "${b}/a", "b": "${c.d}/b"}, {"c": {"d": "root"}}, {"b": "[${c.d}]"})
        self.assertEqual(config["a"], "[root]/a")

    def test_a_lone_reference_keeps_the_type(self):
        config = stack({"n": 5, "t": {"x": [1, "${n}"]}, "r": "${n}", "u": "${t}", "v": "${t.x}", "f": False, "g": "${f}"})
        self.assertEqual(config["r"], 5)
        self.assertEqual(config["u"], {"x": [1, 5]})
        self.assertEqual(config["v"], [1, 5])
        self.assertIs(config["g"], False)

    def test_in_text_values_are_written_as_in_json(self):
        config = stack({"a": True, "b": 1.5, "c": "x", "d": "${a} ${b} ${c}${c}"})
        self.assertEqual(config["d"], "true 1.5 xx")

    def test_tables_and_lists_do_not_fit_into_text(self):
        config = stack({"t": {"x": 1}, "l": [1], "a": "see ${t}", "b": "${l}!"})
        for key in "ab":
            with self.assertRaisesRegex(ConfigError, f"\\b{key}\\b"):
                config[key]

    def test_dollars(self):
        config = stack({"motd": "costs $${5}, ${n} left", "n": 3, "plain": "$5 {x} $", "quoted": "$${n}"}, {}, {"x": 1})
        config.add("more", {"n": 4})
        self.assertEqual(config["motd"], "costs ${5}, 4 left")
        self.assertEqual(config["plain"], "$5 {x} $")
        self.assertEqual(config["quoted"], "${n}")

    def test_dollars_through_a_reference(self):
        config = stack({"a": "$${n}", "b": "${a}", "c": "<${b}>", "n": 1})
        self.assertEqual((config["b"], config["c"]), ("${n}", "<${n}>"))

    def test_a_missing_target_hurts_only_who_asks(self):
        config = stack({"good": 1, "site": {"bad": "${no.such}"}, "worse": "${site.bad}"})
        self.assertEqual(config["good"], 1)
        self.assertIn("site.bad", config)
        for key in ("site.bad", "worse", "site"):
            with self.assertRaisesRegex(ConfigError, "site.bad"):
                config[key]
        with self.assertRaises(ConfigError):
            config.get("site.bad", "default")
        with self.assertRaises(ConfigError):
            config.as_dict()

    def test_a_target_that_was_taken_away(self):
        config = stack({"a": 1, "b": "${a}"}, {"a": None})
        with self.assertRaisesRegex(ConfigError, "b"):
            config["b"]

    def test_circles(self):
        config = stack({"a": "${b}", "b": "x${c}", "c": "${a}", "me": "${me}", "out": "${a}", "fine": 1})
        for key in ("a", "b", "c", "me", "out"):
            with self.assertRaises(ConfigError):
                config[key]
        self.assertEqual(config["fine"], 1)
        config.add("fix", {"c": "end"})
        self.assertEqual(config["a"], "xend")

    def test_circles_through_tables(self):
        config = stack({"t": {"x": "${t}", "y": 1}, "u": {"v": {"w": "${z}"}}, "z": "${u}"})
        for key in ("t", "t.x", "u", "u.v.w", "z"):
            with self.assertRaises(ConfigError):
                config[key]
        self.assertEqual(config["t.y"], 1)

    def test_a_neighbour_is_not_a_circle(self):
        config = stack({"t": {"x": "${t.y}", "y": "${u}"}, "u": "${t.z}${t.z}"}, {"t": {"z": "!"}})
        self.assertEqual(config["t"], {"x": "!!", "y": "!!", "z": "!"})
        self.assertEqual(stack({"ab": 1, "a": "${ab}"})["a"], 1)

    def test_a_key_asked_for_twice_on_the_way_is_not_a_circle(self):
        config = stack({"a": "${b}-${b}-${c}", "b": "${c}", "c": "x"})
        self.assertEqual(config["a"], "x-x-x")


if __name__ == "__main__":
    unittest.main()
