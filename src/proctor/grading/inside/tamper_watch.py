"""Remembers the test machinery as it was, and reports what of it has changed.

It is made of functions inside a function, as the rest of the reporter is: hostile code finds every class of its
interpreter by asking `object` for its subclasses, but not a variable of a function that it was never given.
"""

import builtins
import sys
import time

MYPY = False
if MYPY:
    from collections.abc import Iterator
    from typing import Any

MODULES = sys.modules
FUNCTION = type(lambda: None)
CODE = (FUNCTION, type(len), type, property, staticmethod, classmethod)
ABSENT = object()
MAX_PARTS = 20
# Builtins that are patched in all innocence: they speak to people, or load code. All others decide how a test ends.
PATCHED_BUILTINS = (
    "__import__ breakpoint compile copyright credits delattr eval exec exit help input license open print quit"
).split()
BUILTINS = [name for name in vars(builtins) if name not in PATCHED_BUILTINS]
# What loads the test modules decides what they are.
IMPORT_MODULES = ("importlib", "_frozen_importlib", "_frozen_importlib_external", "_imp", "ast", "marshal")


def function_parts(value: "Any") -> "list[Any]":
    """Every function inside a value, with the parts of it that can be exchanged under its feet."""
    found = []  # type: list[Any]
    rest = [value]
    while rest and len(found) < MAX_PARTS:
        item = rest.pop()
        if isinstance(item, (staticmethod, classmethod)):
            rest.append(item.__func__)
        elif isinstance(item, property):
            rest += [part for part in (item.fget, item.fset) if part is not None]
        elif isinstance(item, FUNCTION):
            found.append((item, item.__code__, item.__defaults__, item.__kwdefaults__))
            inner = item.__dict__.get("__wrapped__")
            if inner is not None:
                rest.append(inner)
    return found


def are_unchanged(parts: "list[Any]") -> "bool":
    return all(
        item.__code__ is code and item.__defaults__ is defaults and item.__kwdefaults__ is keywords
        for item, code, defaults, keywords in parts
    )


def hiding(names: "Any") -> "frozenset[str]":
    """Those of a module's names that hide a builtin."""
    return frozenset(name for name in BUILTINS if name in names)


def make_tamper_watch(packages: "tuple[str, ...]", patchers: "tuple[str, ...]") -> "Any":
    """A watch over `packages`, of which the modules `patchers` patch the others by design.

    Only code is compared; counters and caches may change as they like.
    """
    watched = packages + IMPORT_MODULES
    allowed = []  # type: list[Any]
    modules = {}  # type: dict[str, Any]
    entries = []  # type: list[Any]
    classes = {}  # type: dict[type, Any]
    reported = set()  # type: set[str]
    clock = time.monotonic
    next_look = 0.0

    def remember(holder: "Any", place: "str", name: "str") -> "None":
        value = holder[name]
        if isinstance(value, CODE):
            entries.append((holder, place + "." + name, name, value, function_parts(value)))

    def remember_class(kind: "type", place: "str") -> "None":
        classes[kind] = (place, frozenset(vars(kind)))
        for member in list(vars(kind)):
            remember(vars(kind), place, member)

    def add_loaded_modules() -> "None":
        """Remember the modules of the watched packages that are loaded by now."""
        for name, module in list(MODULES.items()):
            if name in modules or name.partition(".")[0] not in watched or module is None:
                continue
            modules[name] = module
            for attribute, value in list(vars(module).items()):
                remember(vars(module), name, attribute)
                if name in patchers:
                    allowed.extend(part[0] for part in function_parts(value))
                if isinstance(value, type) and is_watched(value) and value not in classes:
                    remember_class(value, name + "." + value.__qualname__)

    def is_watched(kind: "type") -> "bool":
        module = vars(kind).get("__module__")
        return isinstance(module, str) and module.partition(".")[0] in watched

    def is_allowed(value: "Any") -> "bool":
        parts = function_parts(value)
        return bool(parts) and all(part[0] in allowed for part in parts)

    def changes() -> "Iterator[str]":
        for holder, place, name, value, parts in entries:
            now = holder.get(name, ABSENT)
            if (now is not value and not is_allowed(now)) or not are_unchanged(parts):
                yield place
        for kind, (place, names) in classes.items():
            if len(vars(kind)) != len(names):
                for name in additions(kind, names):
                    yield place + "." + name
        for name, module in modules.items():
            if MODULES.get(name) is not module:
                yield "sys.modules[" + name + "]"

    def additions(kind: "type", names: "frozenset[str]") -> "list[str]":
        new = [(name, value) for name, value in list(vars(kind).items()) if name not in names]
        return [name for name, value in new if isinstance(value, CODE) and not is_allowed(value)]

    def find_changes() -> "list[str]":
        """Names of what is no longer as it was, each reported once.

        Looking costs time: after each look, the next is due only after fifty times as long as it took.
        """
        nonlocal next_look
        started = clock()
        fresh = [name for name in changes() if name not in reported]
        reported.update(fresh)
        ended = clock()
        next_look = ended + 50 * (ended - started)
        return fresh

    def is_due() -> "bool":
        return clock() >= next_look

    for name in BUILTINS:
        remember(vars(builtins), "builtins", name)
    if hasattr(MODULES["_io"], "open_code"):
        remember(vars(MODULES["_io"]), "_io", "open_code")
    watch = type(sys.implementation)()  # type: Any
    watch.add_loaded_modules, watch.find_changes, watch.is_due, watch.add = (
        add_loaded_modules,
        find_changes,
        is_due,
        remember_class,
    )
    return watch
