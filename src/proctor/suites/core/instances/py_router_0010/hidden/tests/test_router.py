import itertools
import unittest

from waypost import MethodNotAllowed, NotFound, Router


class Base(unittest.TestCase):
    def routers(self, routes):
        """The same routes, added in several orders."""
        orders = itertools.permutations(routes) if len(routes) <= 4 else (routes, routes[::-1], routes[2:] + routes[:2])
        for order in orders:
            router = Router()
            for method, pattern in order:
                router.add(method, pattern, f"{method} {pattern}")
            yield router

    def check(self, routes, expected):
        for router in self.routers(routes):
            for (method, path), (handler, params) in expected.items():
                match = router.match(method, path)
                self.assertEqual((match.handler, match.params), (handler, params), f"{method} {path}")
                self.assertEqual(match.handler, f"{match.handler.split()[0]} {match.pattern}")

    def allowed(self, router, method, path):
        with self.assertRaises(MethodNotAllowed) as caught:
            router.match(method, path)
        return caught.exception.allowed

    def missing(self, routes, *paths):
        for router in self.routers(routes):
            for path in paths:
                with self.assertRaises(NotFound, msg=path):
                    router.match("GET", path)


class MatchTest(Base):
    ROUTES = [("GET", "/"), ("GET", "/users/{id:int}"), ("GET", "/files/{path:rest}"), ("GET", "/a/{b}/c")]

    def test_each_kind(self):
        self.check(
            self.ROUTES,
            {
                ("GET", "/"): ("GET /", {}),
                ("get", "/users/042"): ("GET /users/{id:int}", {"id": 42}),
                ("GET", "/files/x"): ("GET /files/{path:rest}", {"path": "x"}),
                ("GET", "/files/x/y//z/"): ("GET /files/{path:rest}", {"path": "x/y//z/"}),
                ("GET", "/a/b c/c"): ("GET /a/{b}/c", {"b": "b c"}),
            },
        )

    def test_no_match(self):
        self.missing(self.ROUTES, "", "users/1", "/users", "/users/", "/users/x", "/users/1/", "//", "/a//c", "/files", "/files/")

    def test_digits_are_ascii_digits(self):
        self.missing(self.ROUTES, "/users/-1", "/users/+1", "/users/1_0", "/users/%D9%A1", "/users/\u0661", "/users/%20")

    def test_trailing_slash(self):
        self.check(
            [("GET", "/a"), ("GET", "/a/")],
            {("GET", "/a"): ("GET /a", {}), ("GET", "/a/"): ("GET /a/", {})},
        )

    def test_dots_in_patterns_are_dots(self):
        self.check([("GET", "/a.b")], {("GET", "/a.b"): ("GET /a.b", {})})
        self.missing([("GET", "/a.b")], "/axb")


class PrecedenceTest(Base):
    def test_each_level(self):
        routes = [("GET", "/u/me"), ("GET", "/u/{id:int}"), ("GET", "/u/{name}"), ("GET", "/u/{r:rest}")]
        self.check(
            routes,
            {
                ("GET", "/u/me"): ("GET /u/me", {}),
                ("GET", "/u/7"): ("GET /u/{id:int}", {"id": 7}),
                ("GET", "/u/ada"): ("GET /u/{name}", {"name": "ada"}),
                ("GET", "/u/ada/x"): ("GET /u/{r:rest}", {"r": "ada/x"}),
            },
        )

    def test_a_static_number_before_int(self):
        self.check([("GET", "/{n:int}"), ("GET", "/7")], {("GET", "/7"): ("GET /7", {}), ("GET", "/07"): ("GET /{n:int}", {"n": 7})})

    def test_the_first_difference_decides(self):
        routes = [("GET", "/{a}/b/c"), ("GET", "/a/{b}/{c}"), ("GET", "/{r:rest}")]
        self.check(
            routes,
            {
                ("GET", "/a/b/c"): ("GET /a/{b}/{c}", {"b": "b", "c": "c"}),
                ("GET", "/x/b/c"): ("GET /{a}/b/c", {"a": "x"}),
                ("GET", "/x/b/d"): ("GET /{r:rest}", {"r": "x/b/d"}),
            },
        )

    def test_int_early_beats_static_late(self):
        routes = [("GET", "/{x}/edit"), ("GET", "/{n:int}/{what}")]
        self.check(
            routes,
            {
                ("GET", "/5/edit"): ("GET /{n:int}/{what}", {"n": 5, "what": "edit"}),
                ("GET", "/five/edit"): ("GET /{x}/edit", {"x": "five"}),
            },
        )

    def test_a_dead_end_is_left_again(self):
        routes = [("GET", "/a/b/c"), ("GET", "/a/{x}/d"), ("GET", "/{y}/b/e"), ("GET", "/{z:rest}")]
        self.check(
            routes,
            {
                ("GET", "/a/b/c"): ("GET /a/b/c", {}),
                ("GET", "/a/b/d"): ("GET /a/{x}/d", {"x": "b"}),
                ("GET", "/a/b/e"): ("GET /{y}/b/e", {"y": "a"}),
                ("GET", "/a/b/f"): ("GET /{z:rest}", {"z": "a/b/f"}),
            },
        )

    def test_names_of_parameters_belong_to_their_route(self):
        routes = [("GET", "/{a}/x"), ("GET", "/{b}/y"), ("POST", "/{c}/x")]
        self.check(
            routes,
            {
                ("GET", "/1/x"): ("GET /{a}/x", {"a": "1"}),
                ("GET", "/1/y"): ("GET /{b}/y", {"b": "1"}),
                ("POST", "/1/x"): ("POST /{c}/x", {"c": "1"}),
            },
        )


class MethodTest(Base):
    def test_a_worse_pattern_with_the_right_method(self):
        self.check(
            [("GET", "/items/{id:int}"), ("DELETE", "/items/{name}"), ("PUT", "/{r:rest}")],
            {
                ("DELETE", "/items/7"): ("DELETE /items/{name}", {"name": "7"}),
                ("PUT", "/items/7"): ("PUT /{r:rest}", {"r": "items/7"}),
                ("GET", "/items/7"): ("GET /items/{id:int}", {"id": 7}),
            },
        )

    def test_allowed_has_every_method_of_every_matching_pattern(self):
        routes = [("POST", "/items/{id:int}"), ("DELETE", "/items/{name}"), ("PUT", "/other"), ("PATCH", "/{r:rest}")]
        for router in self.routers(routes):
            self.assertEqual(self.allowed(router, "GET", "/items/7"), ["DELETE", "PATCH", "POST"])
            self.assertEqual(self.allowed(router, "OPTIONS", "/items/x"), ["DELETE", "PATCH"])
            self.assertEqual(self.allowed(router, "GET", "/other"), ["PATCH", "PUT"])

    def test_allowed_lists_head_with_get(self):
        for router in self.routers([("GET", "/a"), ("POST", "/a")]):
            self.assertEqual(self.allowed(router, "PUT", "/a"), ["GET", "HEAD", "POST"])

    def test_head_is_answered_by_get(self):
        self.check([("GET", "/a"), ("POST", "/a")], {("HEAD", "/a"): ("GET /a", {})})

    def test_head_routes_go_first(self):
        self.check(
            [("GET", "/a"), ("HEAD", "/a"), ("HEAD", "/{x}"), ("GET", "/b")],
            {("HEAD", "/a"): ("HEAD /a", {}), ("HEAD", "/b"): ("HEAD /{x}", {"x": "b"}), ("GET", "/b"): ("GET /b", {})},
        )

    def test_head_does_not_answer_get(self):
        for router in self.routers([("HEAD", "/a")]):
            self.assertEqual(self.allowed(router, "GET", "/a"), ["HEAD"])


class EscapeTest(Base):
    ROUTES = [("GET", "/files/{name}"), ("GET", "/a/b"), ("GET", "/all/{r:rest}"), ("GET", "/gr\u00fcn")]

    def test_an_encoded_slash_belongs_to_its_segment(self):
        self.check(
            self.ROUTES,
            {
                ("GET", "/files/a%2Fb"): ("GET /files/{name}", {"name": "a/b"}),
                ("GET", "/files/%2f"): ("GET /files/{name}", {"name": "/"}),
                ("GET", "/all/x%2Fy/z"): ("GET /all/{r:rest}", {"r": "x/y/z"}),
            },
        )
        self.missing(self.ROUTES, "/a%2Fb", "/a%2fb", "%2Fa/b")

    def test_static_text_is_compared_decoded(self):
        self.check(
            self.ROUTES,
            {("GET", "/%61/b"): ("GET /a/b", {}), ("GET", "/gr%C3%BCn"): ("GET /gr\u00fcn", {})},
        )

    def test_decoded_once(self):
        self.check(
            self.ROUTES,
            {
                ("GET", "/files/100%25"): ("GET /files/{name}", {"name": "100%"}),
                ("GET", "/files/%2541"): ("GET /files/{name}", {"name": "%41"}),
                ("GET", "/files/a+b"): ("GET /files/{name}", {"name": "a+b"}),
                ("GET", "/files/a%0Ab"): ("GET /files/{name}", {"name": "a\nb"}),
            },
        )

    def test_broken_escapes_are_no_match(self):
        self.missing(self.ROUTES, "/files/%zz", "/files/%", "/files/%4", "/files/%ff", "/files/%C3", "/all/x/%C3%28")

    def test_int_behind_an_escape(self):
        self.check([("GET", "/{n:int}")], {("GET", "/%34%32"): ("GET /{n:int}", {"n": 42})})


class AddTest(Base):
    def test_twice_is_refused(self):
        router = Router()
        router.add("GET", "/u/{id:int}", 1)
        router.add("POST", "/u/{id:int}", 2)
        router.add("GET", "/u/{id}", 3)
        with self.assertRaises(ValueError):
            router.add("get", "/u/{number:int}", 4)
        self.assertEqual(router.match("GET", "/u/1").handler, 1)

    def test_malformed_patterns_are_refused(self):
        for pattern in ("", "a", "/{", "/{a", "/a}", "/{a}b", "/{1}", "/{a:float}", "/{a}/{a}", "/{r:rest}/x", "/{}"):
            with self.assertRaises(ValueError, msg=pattern):
                Router().add("GET", pattern, None)

    def test_url(self):
        router = Router()
        router.add("GET", "/u/{id:int}/{name}", 1, name="user")
        router.add("GET", "/f/{path:rest}", 2, name="file")
        self.assertEqual(router.url("user", id=7, name="a/b c"), "/u/7/a%2Fb%20c")
        self.assertEqual(router.url("file", path="x/y?"), "/f/x/y%3F")
        for call in (lambda: router.url("nobody"), lambda: router.url("user", id=1), lambda: router.url("file", path="x", q=1)):
            with self.assertRaises(ValueError):
                call()

    def test_there_and_back(self):
        router = Router()
        router.add("GET", "/u/{name}", 1, name="user")
        for name in ("a/b", "100%", "\u00e9\u6f22", "a b+c", "..", "%2F"):
            self.assertEqual(router.match("GET", router.url("user", name=name)).params, {"name": name})


if __name__ == "__main__":
    unittest.main()
