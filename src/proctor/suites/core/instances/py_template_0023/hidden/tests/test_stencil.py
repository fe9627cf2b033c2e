import unittest

from stencil import Environment, TemplateError


class Base(unittest.TestCase):
    def render(self, text="", values=None, **templates):
        """Renders `text`, or the template "page"."""
        if text:
            templates["page"] = text
        return Environment(templates).render("page", **(values or {}))

    def fails(self, template, line, values=None, **templates):
        with self.assertRaises(TemplateError) as caught:
            self.render(values=values, **templates)
        self.assertEqual((caught.exception.template, caught.exception.line), (template, line), str(caught.exception))
        self.assertIn(template, str(caught.exception))


class AsBeforeTest(Base):
    def test_expressions(self):
        values = {"user": {"name": "ada"}, "list": [1, 2], "n": 2, "super": "hero"}
        for text, expected in {
            "{{ user.name | upper }}": "ADA",
            "{{ list.1 }}{{ list.7 }}{{ nope.x }}": "2",
            '{{ list | join(", ") | default("x") }}': "1, 2",
            "{{ n == 2 and not false }}": "True",
            "{{ (n < 2) or 1.5 }}": "1.5",
            "{{ super }}": "hero",
            "{# {{ nope }} #}a": "a",
        }.items():
            self.assertEqual(self.render(text, values), expected, text)

    def test_tags(self):
        text = "{% for n in list %}{% if n > 1 %}{{ n }}{% elif n == 1 %}one{% else %}?{% endif %}{% if not loop.last %},{% endif %}{% else %}none{% endfor %}"
        self.assertEqual(self.render(text, {"list": [1, 2, 0]}), "one,2,?")
        self.assertEqual(self.render(text, {"list": []}), "none")

    def test_set_ends_with_the_loop(self):
        self.assertEqual(self.render("{% set x = 1 %}{% for i in l %}{% set x = i %}{{ x }}{% endfor %}{{ x }}", {"l": [5, 6]}), "561")
        self.assertEqual(self.render("{% if true %}{% set x = 1 %}{% endif %}{{ x }}"), "1")

    def test_include(self):
        self.assertEqual(self.render('{% set x = 5 %}{% include "part" %}{{ y }}', part="<{{ x }}{% set y = 1 %}>"), "<5>")
        self.fails("page", 2, page='\n{% include "nope" %}')
        self.fails("page", 1, page='{% include "page" %}')

    def test_white_space(self):
        self.assertEqual(self.render("a \n {%- if true -%} \n b {{- 1 }} {% endif %}"), "ab1 ")

    def test_errors(self):
        self.fails("page", 2, page="a\n{{ 1 + }}")
        self.fails("page", 3, page="\n\n{% frob %}")
        self.fails("page", 1, page="{{ a")
        self.fails("page", 2, page="\n{{ n | upper | nope }}")
        self.fails("part", 2, page='{% include "part" %}', part="\n{{ 1 < none }}")
        self.fails("page", 1, page="{% endif %}")


class BlockTest(Base):
    def test_just_its_content(self):
        self.assertEqual(self.render("a{% block x %}b{{ 1 }}{% endblock %}c{% block y %}{% endblock y %}"), "ab1c")

    def test_nested(self):
        self.assertEqual(self.render("{% block a %}1{% block b %}2{% endblock %}3{% endblock a %}"), "123")

    def test_it_sees_what_is_around_it(self):
        self.assertEqual(
            self.render("{% set y = 7 %}{% for i in l %}{% block x %}{{ i }}{{ y }}{{ loop.last }} {% endblock %}{% endfor %}", {"l": [1, 2]}), "17False 27True "
        )

    def test_what_it_sets_ends_with_it(self):
        self.assertEqual(self.render("{% set x = 1 %}{% block b %}{% set x = 2 %}{% set y = 3 %}{{ x }}{{ y }}{% endblock %}{{ x }}{{ y }}"), "231")

    def test_white_space(self):
        self.assertEqual(self.render("a {%- block x -%} b {%- endblock x -%} c"), "abc")

    def test_mistakes(self):
        self.fails("page", 3, page="{% block a %}{% endblock %}\n\n{% block a %}{% endblock %}")
        self.fails("page", 2, page="{% block a %}\n{% block a %}{% endblock %}{% endblock %}")
        self.fails("page", 2, page="{% block a %}\n{% endblock b %}")
        self.fails("page", 1, page="{% block %}{% endblock %}")
        self.fails("page", 1, page="{% block a b %}{% endblock %}")
        self.fails("page", 1, page="{% block 1 %}{% endblock %}")
        self.fails("page", 1, page="{% endblock %}")
        self.fails("page", 1, page="{% block a %}{% if x %}{% endblock %}{% endif %}")
        with self.assertRaises(TemplateError):
            self.render("{% block a %}")


class ExtendsTest(Base):
    FRAME = "<{% block title %}Shop{% endblock %}>{% block content %}{% endblock %}!"

    def test_blocks_are_replaced(self):
        self.assertEqual(self.render('{% extends "base" %}{% block content %}hello{% endblock %}', base=self.FRAME), "<Shop>hello!")
        self.assertEqual(
            self.render('{% extends "base" %}{% block content %}{{ x }}{% endblock %}{% block title %}T{% endblock %}', {"x": 5}, base=self.FRAME), "<T>5!"
        )

    def test_nothing_else_is_rendered(self):
        self.assertEqual(self.render(' \n{# hi #}{% extends "base" %} lost {{ 1 }}{% if true %}lost{% endif %}{% block other %}lost{% endblock %}', base=self.FRAME), "<Shop>!")

    def test_what_is_not_rendered_is_not_evaluated(self):
        self.assertEqual(self.render('{% extends "base" %}{{ 1 < none }}{% for i in 5 %}{% endfor %}{% include "nope" %}', base=self.FRAME), "<Shop>!")

    def test_the_parent_by_itself_does_not_change(self):
        environment = Environment({"base": self.FRAME, "page": '{% extends "base" %}{% block title %}T{% endblock %}'})
        self.assertEqual([environment.render(name) for name in ("base", "page", "base", "page")], ["<Shop>!", "<T>!", "<Shop>!", "<T>!"])

    def test_two_children_of_one_parent(self):
        environment = Environment(
            {
                "base": self.FRAME,
                "one": '{% extends "base" %}{% block title %}1{{ super() }}{% endblock %}',
                "two": '{% extends "base" %}{% block title %}2{{ super() }}{% endblock %}',
            }
        )
        self.assertEqual([environment.render(name) for name in ("one", "two", "one")], ["<1Shop>!", "<2Shop>!", "<1Shop>!"])

    def test_three_generations(self):
        self.assertEqual(
            self.render(
                '{% extends "middle" %}{% block content %}c{% endblock %}',
                middle='{% extends "base" %}{% block title %}M{% endblock %}{% block content %}m{% endblock %}',
                base=self.FRAME,
            ),
            "<M>c!",
        )

    def test_a_block_that_skips_a_generation(self):
        self.assertEqual(
            self.render('{% extends "m" %}{% block title %}c+{{ super() }}{% endblock %}', m='{% extends "base" %}{% block content %}m{% endblock %}', base=self.FRAME),
            "<c+Shop>m!",
        )

    def test_nested_blocks_are_replaced_one_by_one(self):
        base = "{% block a %}1{% block b %}2{% endblock %}3{% endblock %}"
        self.assertEqual(self.render('{% extends "base" %}{% block b %}x{% endblock %}', base=base), "1x3")
        self.assertEqual(self.render('{% extends "base" %}{% block a %}y{% endblock %}{% block b %}x{% endblock %}', base=base), "y")
        self.assertEqual(self.render('{% extends "base" %}{% block a %}y{% block b %}x{% endblock %}z{% endblock %}', base=base), "yxz")

    def test_a_new_block_inside_of_a_replaced_one(self):
        middle = '{% extends "base" %}{% block content %}[{% block inner %}m{% endblock %}]{% endblock %}'
        self.assertEqual(self.render(base=self.FRAME, page=middle), "<Shop>[m]!")
        self.assertEqual(self.render('{% extends "middle" %}{% block inner %}c{{ super() }}{% endblock %}', base=self.FRAME, middle=middle), "<Shop>[cm]!")

    def test_the_parent_is_an_expression(self):
        templates = {"page": "{% extends which %}{% block x %}p{% endblock %}", "a": "a{% block x %}{% endblock %}", "b": "b{% block x %}{% endblock %}"}
        self.assertEqual(self.render(values={"which": "a"}, **templates), "ap")
        environment = Environment(templates)
        self.assertEqual([environment.render("page", which=name) for name in "aba"], ["ap", "bp", "ap"])

    def test_variables_at_the_place_of_the_block(self):
        base = "{% for item in menu %}<{% block entry %}{{ item }}{% endblock %}>{% endfor %}"
        self.assertEqual(
            self.render('{% extends "base" %}{% block entry %}{{ loop.index }}:{{ item }}{% endblock %}', {"menu": ["a", "b"]}, base=base), "<1:a><2:b>"
        )

    def test_sets_of_the_child(self):
        base = "{% block a %}{% endblock %}{{ x }}{{ y }}{{ z }}"
        self.assertEqual(
            self.render('{% extends "base" %}{% set x = 1 %}{% set y = x %}{% block a %}[{{ x }}]{% endblock %}{% if true %}{% set z = 3 %}{% endif %}', base=base), "[1]11"
        )

    def test_sets_of_all_generations(self):
        middle = '{% extends "base" %}{% set x = "m" %}{% set y = "m" %}'
        self.assertEqual(self.render('{% extends "middle" %}{% set y = "c" %}{% set z = "c" %}', middle=middle, base="{{ x }}{{ y }}{{ z }}"), "mmc")
        self.assertEqual(self.render('{% extends "base" %}{% set x = 1 %}', base="{{ x }}{% set x = 2 %}{{ x }}"), "12")

    def test_the_name_of_the_parent_can_be_set_by_a_child(self):
        self.assertEqual(self.render('{% extends "middle" %}{% set top = "b" %}', middle="{% extends top %}", a="a", b="b"), "b")

    def test_sets_do_not_leak_into_other_renderings(self):
        environment = Environment({"base": "{{ x }}", "page": '{% extends "base" %}{% set x = 1 %}'})
        self.assertEqual([environment.render("page"), environment.render("base")], ["1", ""])


class SuperTest(Base):
    def test_chain(self):
        self.assertEqual(
            self.render(
                '{% extends "m" %}{% block x %}c({{ super() }}){% endblock %}',
                m='{% extends "b" %}{% block x %}m({{ super() }}){% endblock %}',
                b="{% block x %}b{% endblock %}",
            ),
            "c(m(b))",
        )

    def test_in_expressions(self):
        self.assertEqual(
            self.render('{% extends "b" %}{% block x %}{{ super() | upper }}{% if super() == "b" %}!{% endif %}{% set s = super() %}{{ s }}{{ super( ) }}{% endblock %}', b="{% block x %}b{% endblock %}"),
            "B!bb",
        )

    def test_in_loops(self):
        self.assertEqual(
            self.render('{% extends "b" %}{% block x %}{% for i in l %}{{ super() }},{% endfor %}{% endblock %}', {"l": [1, 2]}, b="{% block x %}<{{ i }}>{% endblock %}"), "<1>,<2>,"
        )

    def test_it_sees_what_is_known_at_the_call(self):
        self.assertEqual(self.render('{% extends "b" %}{% block x %}{% set n = 5 %}{{ super() }}{{ n }}{% endblock %}', b="{% block x %}{{ n }}{% set n = 9 %}{% endblock %}"), "55")

    def test_blocks_inside_of_the_parents_block(self):
        # The parent's block has a block of its own, which the child replaces as well.
        self.assertEqual(
            self.render('{% extends "b" %}{% block x %}[{{ super() }}]{% endblock %}{% block y %}Y{{ super() }}{% endblock %}', b="{% block x %}x{% block y %}y{% endblock %}{% endblock %}"), "[xYy]"
        )

    def test_a_nested_block_and_its_own_super(self):
        self.assertEqual(
            self.render(
                '{% extends "b" %}{% block x %}{% block y %}({{ super() }}){% endblock %}{{ super() }}{% endblock %}',
                b="{% block x %}bx{% endblock %}{% block y %}by{% endblock %}",
            ),
            "(by)bx(by)",
        )

    def test_there_is_none(self):
        self.fails("page", 2, page="{% block x %}\n{{ super() }}{% endblock %}")
        self.fails("page", 1, page="{{ super() }}")
        self.assertEqual(self.render('{% extends "b" %}{% block new %}{{ super() }}{% endblock %}', b="fine"), "fine")

    def test_not_one_level_too_far(self):
        self.fails(
            "b", 2, page='{% extends "b" %}{% block x %}{{ super() }}{% endblock %}', b="{% block x %}\n{{ super() }}{% endblock %}"
        )

    def test_super_is_still_a_name(self):
        self.assertEqual(self.render("{% block x %}{{ super.man }}{{ super }}{% endblock %}", {"super": {"man": 1}}), "1{'man': 1}")

    def test_mistakes(self):
        self.fails("page", 1, page="{% block x %}{{ super(1) }}{% endblock %}")
        self.fails("page", 1, page="{% block x %}{{ super( }}{% endblock %}")


class IncludeTest(Base):
    def test_blocks_of_an_included_template_are_its_own(self):
        self.assertEqual(
            self.render('{% extends "base" %}{% block x %}page{% endblock %}', base='{% block x %}base{% endblock %}{% include "part" %}', part="({% block x %}part{% endblock %})"), "page(part)"
        )
        self.assertEqual(self.render('{% block x %}page{% endblock %}{% include "part" %}', part="{% block x %}part{% endblock %}"), "pagepart")

    def test_an_included_template_that_extends(self):
        self.assertEqual(
            self.render('{% block x %}1{% endblock %}{% set v = 5 %}{% include "part" %}{{ w }}{% block y %}2{% endblock %}',
                        part='{% extends "frame" %}{% set w = 1 %}{% block x %}{{ v }}{{ w }}{{ super() }}{% endblock %}', frame="<{% block x %}f{% endblock %}>"),
            "1<51f>2",
        )

    def test_include_inside_of_a_block(self):
        self.assertEqual(
            self.render('{% extends "base" %}{% block x %}{% set v = 1 %}{% include "part" %}{{ super() }}{% endblock %}', base="{% block x %}b{% endblock %}", part="{{ v }}{% block x %}p{% endblock %}"), "1pb"
        )

    def test_no_super_across_an_include(self):
        self.fails("part", 2, page='{% extends "base" %}{% block x %}{% include "part" %}{% endblock %}', base="{% block x %}b{% endblock %}", part="\n{{ super() }}")
        self.fails("part", 1, page='{% extends "base" %}{% block x %}{% include "part" %}{% endblock %}', base="{% block x %}b{% endblock %}", part="{% block x %}{{ super() }}{% endblock %}")

    def test_after_an_include_all_is_as_before(self):
        self.assertEqual(
            self.render('{% extends "base" %}{% block y %}page{{ super() }}{% endblock %}', base='{% include "part" %}{% block x %}x{% endblock %}{% block y %}y{% endblock %}',
                        part='{% extends "frame" %}{% block y %}part{% endblock %}', frame="[{% block y %}{% endblock %}]"),
            "[part]xpagey",
        )


class MistakeTest(Base):
    def test_extends_comes_first(self):
        self.fails("page", 2, page='text\n{% extends "base" %}', base="")
        self.fails("page", 2, page='{{ x }}\n{% extends "base" %}', base="")
        self.fails("page", 2, page='{% set x = 1 %}\n{% extends "base" %}', base="")
        self.fails("page", 2, page='{% extends "base" %}\n{% extends "base" %}', base="")
        self.fails("page", 2, page='{% block x %}\n{% extends "base" %}{% endblock %}', base="")
        self.fails("page", 1, page='{% if true %}{% extends "base" %}{% endif %}', base="")
        self.fails("page", 3, page='{% extends "base" %}\n{% for i in l %}\n{% extends "base" %}{% endfor %}', base="")

    def test_the_parent_does_not_exist(self):
        self.fails("page", 2, page='\n{% extends "nope" %}')
        self.fails("middle", 1, page='\n{% extends "middle" %}', middle='{% extends "nope" %}')
        self.fails("page", 1, page="{% extends nothing %}")

    def test_circles(self):
        self.fails("page", 1, page='{% extends "page" %}')
        self.fails("b", 2, page='{% extends "a" %}', a='{% extends "b" %}', b='\n{% extends "a" %}')

    def test_where_the_mistake_is(self):
        base = "{% block x %}\n{{ 1 < none }}{% endblock %}"
        self.fails("base", 2, page='{% extends "base" %}', base=base)
        self.fails("base", 2, page='{% extends "base" %}\n\n\n{% block x %}{{ super() }}{% endblock %}', base=base)
        self.fails("page", 3, page='{% extends "base" %}\n{% block x %}\n{{ 1 < none }}{% endblock %}', base=base)
        self.fails("page", 2, page='{% extends "base" %}\n{% set x = 1 < none %}', base="")
        self.fails("base", 2, page='{% extends "base" %}', base="\n{% if %}")

    def test_it_works_again_after_a_mistake(self):
        environment = Environment({"base": "{% block x %}{{ v < 1 }}{% endblock %}", "page": '{% extends "base" %}{% block x %}{{ super() }}{% endblock %}'})
        for _ in range(60):
            with self.assertRaises(TemplateError):
                environment.render("page", v=None)
        self.assertEqual(environment.render("page", v=0), "True")

    def test_templates_are_read_once(self):
        asked = []
        texts = {"base": "{% block x %}b{% endblock %}", "page": '{% extends "base" %}{% block x %}{{ super() }}{% endblock %}'}

        def source(name):
            asked.append(name)
            return texts[name]

        environment = Environment(source)
        self.assertEqual([environment.render("page") for _ in range(3)], ["b"] * 3)
        self.assertEqual(asked, ["page", "base"])


if __name__ == "__main__":
    unittest.main()
