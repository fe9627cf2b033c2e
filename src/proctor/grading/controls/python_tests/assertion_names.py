"""What the names of assertions of unittest, pytest, mock, Django, nose and numpy say."""

import re
from typing import Final

_FLIPPED: Final = {
    "assertEqual": "assertNotEqual",
    "assertIs": "assertIsNot",
    "assertIsNone": "assertIsNotNone",
    "assertIn": "assertNotIn",
    "assertIsInstance": "assertNotIsInstance",
    "assertAlmostEqual": "assertNotAlmostEqual",
    "assertRegex": "assertNotRegex",
    "assertGreater": "assertLessEqual",
    "assertLess": "assertGreaterEqual",
    "assertTrue": "assertFalse",
    "assertStartsWith": "assertNotStartsWith",
    "assertEndsWith": "assertNotEndsWith",
    "assertHasAttr": "assertNotHasAttr",
    "assertContains": "assertNotContains",
    "assertTemplateUsed": "assertTemplateNotUsed",
    "assertHTMLEqual": "assertHTMLNotEqual",
    "assertXMLEqual": "assertXMLNotEqual",
    "assertJSONEqual": "assertJSONNotEqual",
    "assert_called": "assert_not_called",
    "assert_true": "assert_false",
    "assert_equal": "assert_not_equal",
    "assert_in": "assert_not_in",
    "assert_is": "assert_is_not",
    "assert_is_none": "assert_is_not_none",
}
_ONE_WAY: Final = {
    "assertEquals": "assertNotEqual",
    "assertListEqual": "assertNotEqual",
    "assertTupleEqual": "assertNotEqual",
    "assertDictEqual": "assertNotEqual",
    "assertSetEqual": "assertNotEqual",
    "assertSequenceEqual": "assertNotEqual",
    "assertMultiLineEqual": "assertNotEqual",
    "assertAlmostEquals": "assertNotAlmostEqual",
    "assertRegexpMatches": "assertNotRegex",
    "assertLessEqual": "assertGreater",
    "assertGreaterEqual": "assertLess",
    "assert_": "assertFalse",
    "assert_called_once": "assert_not_called",
    "failUnless": "assertFalse",
    "failIf": "assertTrue",
}
OPPOSITES: Final = {**{there: here for here, there in _FLIPPED.items()}, **_FLIPPED, **_ONE_WAY}
# nose's and numpy's functions of these names have no opposite in the same module.
METHODS_ONLY: Final = frozenset(name for name in OPPOSITES if "_" in name and "_called" not in name)

TRUE: Final = frozenset({"assertTrue", "assert_", "failUnless", "ok_", "assert_true"})
FALSE: Final = frozenset({"assertFalse", "failIf", "assert_false"})
# What these expect is no literal.
NO_LITERAL: Final = FALSE | {"assertIsNone", "assertIsNotNone", "assertIsInstance"}
UNCHANGEABLE: Final = re.compile(
    r"^assert_?(?:Is)?_?Not|NotEqual|NotIn|not_equal|not_in|Not(?:Contains|Used)|^assert(?:Greater|Less)", re.IGNORECASE
)
RAISES: Final = re.compile(r"^(?:assert_?)?(?:raises|warns)(?:_?(?:regexp?|message))?$", re.IGNORECASE)
CLOSE: Final = re.compile(r"almost|close|approx|within|delta", re.IGNORECASE)
SIDES: Final = re.compile(r"equals?$|equal_|^eq_?$|^eq|same|identical|close|^assert_?is$", re.IGNORECASE)
ASSERTS: Final = re.compile(
    r"^_*(?:assert|check|verify|expect|ensure|should|must|eq_?$|ok_$|compare|validate)", re.IGNORECASE
)
CALLED_WITH: Final = frozenset(
    {"assert_called_with", "assert_called_once_with", "assert_any_call", "assert_awaited_with"}
)
