import unittest

from waypost import MethodNotAllowed, NotFound, Router


class RouterTest(unittest.TestCase):
    def setUp(self):
        self.router = Router()
        self.router.add("GET", "/", "home")
        self.router.add("GET", "/users/{id:int}", "user", name="user")
        self.router.add("GET", "/files/{path:rest}", "file")

    def test_match(self):
        self.assertEqual(self.router.match("GET", "/").handler, "home")
        match = self.router.match("GET", "/users/42")
        self.assertEqual((match.handler, match.params), ("user", {"id": 42}))
        self.assertEqual(self.router.match("GET", "/files/a/b.txt").params, {"path": "a/b.txt"})

    def test_no_match(self):
        with self.assertRaises(NotFound):
            self.router.match("GET", "/users/ada")
        with self.assertRaises(MethodNotAllowed):
            self.router.match("POST", "/users/42")

    def test_url(self):
        self.assertEqual(self.router.url("user", id=7), "/users/7")
