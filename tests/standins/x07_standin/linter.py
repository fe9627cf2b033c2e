"""The linter: arity rules, two of them with a quickfix."""

from collections.abc import Iterator
from typing import Any

from x07_standin.language import FORMS, OPERATORS, canonical

Diagnostic = dict[str, Any]


def lint(document: dict[str, Any], file: str) -> list[Diagnostic]:
    """What is wrong; pointers are into the canonical form."""
    found = []
    for index, decl in enumerate(canonical(document)["decls"]):
        if decl["kind"] == "defn":
            found += list(_expression(decl["body"], f"/decls/{index}/body"))
    return [{**diagnostic, "data": {"file": file}} for diagnostic in found]


def report(diagnostics: list[Diagnostic], inputs: list[str]) -> dict[str, Any]:
    return {
        "schema_version": "x07.x07diag@0.1.0",
        "ok": not diagnostics,
        "diagnostics": diagnostics,
        "meta": {"inputs": inputs},
    }


def _expression(body: Any, pointer: str) -> Iterator[Diagnostic]:
    if not isinstance(body, list) or not body or not isinstance(body[0], str):
        return
    head, arguments = body[0], body[1:]
    if head in OPERATORS and len(arguments) != 2:
        quickfix = _nested(body) if len(arguments) > 2 else None
        yield _diagnostic("BINOP", pointer, f'operator "{head}" expects 2 args; got {len(arguments)}', quickfix)
    elif head in FORMS and len(arguments) != FORMS[head]:
        quickfix = None
        if head == "for" and len(arguments) > 4:
            quickfix = [*body[:4], ["begin", *body[4:]]]
        message = f"{head} expects {FORMS[head]} args; got {len(arguments)}"
        yield _diagnostic(head.upper(), pointer, message, quickfix)
    for index, argument in enumerate(arguments, start=1):
        yield from _expression(argument, f"{pointer}/{index}")


def _nested(body: list[Any]) -> list[Any]:
    head, first, *rest = body
    for argument in rest:
        first = [head, first, argument]
    return list(first)


def _diagnostic(rule: str, pointer: str, message: str, quickfix: Any) -> Diagnostic:
    diagnostic: Diagnostic = {
        "code": f"X07-ARITY-{rule}-0001",
        "severity": "error",
        "stage": "lint",
        "message": message,
        "loc": {"kind": "x07ast", "ptr": pointer},
    }
    if quickfix is not None:
        patch = [{"op": "replace", "path": pointer, "value": quickfix}]
        diagnostic["quickfix"] = {"kind": "json_patch", "patch": patch, "note": "Rewrite"}
    return diagnostic
