"""JSON as commands print it, held against the schemas that are shipped."""

import json
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from proctor.schema import json_schema


def checked(printed: str) -> Any:
    """What was printed. It, or each of its items, says what it is, and is what the schema of that says."""
    document = json.loads(printed)
    for one in document if isinstance(document, list) else [document]:
        package, _, kind = one["schema_version"].partition(".")
        assert package == "proctor"
        _validator(kind.partition("@")[0].replace("_", "-")).validate(one)
    return document


@cache
def _validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(json_schema(name))
