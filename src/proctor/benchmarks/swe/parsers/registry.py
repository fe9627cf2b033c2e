"""Parsers by the names that data sets give them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from proctor.benchmarks.swe.parsers import other_languages as other
from proctor.benchmarks.swe.parsers.pytest_lines import (
    Parser,
    pytest_either_end,
    pytest_matplotlib,
    pytest_pydantic,
    pytest_shortened,
    pytest_spaced,
    pytest_summary,
    pytest_verbose,
)
from proctor.benchmarks.swe.parsers.python_runners import django, sympy
from proctor.core.errors import InvalidData

PARSERS: Final[Mapping[str, Parser]] = MappingProxyType(
    {
        "parse_log_pytest": pytest_summary,
        "parse_log_pytest_options": pytest_shortened,
        "parse_log_pytest_v2": pytest_spaced,
        **dict.fromkeys(
            (
                "parse_log_astroid",
                "parse_log_flask",
                "parse_log_marshmallow",
                "parse_log_pvlib",
                "parse_log_pyvista",
                "parse_log_sqlfluff",
                "parse_log_xarray",
            ),
            pytest_summary,
        ),
        **dict.fromkeys(("parse_log_pydicom", "parse_log_requests", "parse_log_pylint"), pytest_shortened),
        **dict.fromkeys(("parse_log_astropy", "parse_log_scikit", "parse_log_sphinx"), pytest_spaced),
        "parse_log_matplotlib": pytest_matplotlib,
        "parse_log_seaborn": pytest_verbose,
        "parse_log_django": django,
        "parse_log_sympy": sympy,
        "parse_log_redis": other.redis,
        "parse_log_jq": other.jq,
        "parse_log_doctest": other.doctest,
        "parse_log_micropython_test": other.micropython,
        "parse_log_googletest": other.googletest,
        "parse_log_gotest": other.gotest,
        "parse_log_maven": other.maven,
        "parse_log_ant": other.ant,
        "parse_log_gradle_custom": other.gradle,
        "parse_log_phpunit": other.phpunit,
        "parse_log_minitest": other.minitest,
        "parse_log_cucumber": other.cucumber,
        "parse_log_ruby_unit": other.ruby_unit,
        "parse_log_rspec_transformed_json": other.rspec,
        "parse_log_cargo": other.cargo,
        "parse_log_jest": other.jest,
        "parse_log_jest_json": other.jest_json,
        "parse_log_vitest": other.vitest,
        "parse_log_karma": other.karma,
        "parse_log_tap": other.tap,
    }
)
LEGACY: Final[Mapping[str, Parser]] = MappingProxyType(
    {
        "parse_log_pytest": pytest_summary,
        "parse_log_pytest_options": pytest_shortened,
        "parse_log_pytest_v2": pytest_either_end,
        "parse_log_pytest_pydantic": pytest_pydantic,
    }
)
# Two projects changed their test program, so the pull request decides which one prints.
_BY_NUMBER: Final[Mapping[str, Mapping[str, Parser]]] = {
    "parse_log_jekyll": {
        **dict.fromkeys(("9141", "8047", "8167"), other.minitest),
        **dict.fromkeys(("8761", "8771"), other.cucumber),
    },
    "parse_log_immutable_js": {"2006": other.jest, "2005": other.jest_json},
}


def find_parser(name: str, instance_id: str, *, legacy: bool = False) -> Parser:
    """The parser for an instance's log.

    Raises:
        InvalidData: there is none of that name.
    """
    known = LEGACY if legacy else PARSERS
    if name in known:
        return known[name]
    by_number = _BY_NUMBER.get(name, {})
    number = instance_id.rpartition("-")[2]
    if number in by_number:
        return by_number[number]
    raise InvalidData(f"there is no log parser {name!r}", where=instance_id, fix="a newer Proctor may know it")
