import unittest

from stencil import Environment, TemplateError


class StencilTest(unittest.TestCase):
    def render(self, text, **values):
        return Environment({"t": text, "part": "<{{ x }}>"}).render("t", **values)

    def test_values(self):
        self.assertEqual(self.render("Hello {{ user.name | upper }}!", user={"name": "ada"}), "Hello ADA!")

    def test_for_and_if(self):
        text = "{% for n in list %}{% if n > 1 %}{{ n }}{% if not loop.last %},{% endif %}{% endif %}{% else %}none{% endfor %}"
        self.assertEqual(self.render(text, list=[1, 2, 3]), "2,3")
        self.assertEqual(self.render(text, list=[]), "none")

    def test_include(self):
        self.assertEqual(self.render('{% set x = 5 %}{% include "part" %}'), "<5>")

    def test_errors(self):
        with self.assertRaises(TemplateError) as caught:
            self.render("a\n{% if x %}\nb")
        self.assertEqual(caught.exception.template, "t")
