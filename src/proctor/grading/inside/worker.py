"""The half of a test run that shares its process with the tested code, and so expects the worst of it.

It takes what it needs before anything of the workspace is imported: its functions see a private copy of the
builtins, and call `os.write` and the like through references of their own. It watches the test machinery for
changes, and says what it saw. What hostile code can still do from inside the same interpreter is for the
integrity audit to name.
"""

import builtins
import os
import site
import sys
import time
from _blake2 import blake2b

MYPY = False
if MYPY:
    from collections.abc import Iterator
    from typing import Any

MODULES = sys.modules
BOOTED = frozenset(MODULES)
FUNCTION = type(lambda: None)
CODE = (FUNCTION, type(len), type, property, staticmethod, classmethod)
ABSENT = object()
ABORTED = 70
MOST_LAYERS = 20
# Those of the builtins that decide how a test ends. `open`, `print` and their like are patched in all innocence.
BUILTINS = (
    "__build_class__ __import__ AssertionError BaseException Exception KeyboardInterrupt SystemExit all any bool "
    "callable delattr dict getattr hasattr isinstance issubclass iter len list next object property repr set setattr "
    "str super tuple type vars zip"
).split()


def make_emit(
    descriptor: "int", token: "bytes", write: "Any" = os.write, getpid: "Any" = os.getpid, leave: "Any" = os._exit
) -> "Any":
    """The one way out for records: a function that nothing but its holder can reach by name."""
    base = blake2b(key=token, digest_size=16)
    owner = getpid()
    last = b""

    def emit(kind: "str", *fields: "str") -> "None":
        nonlocal last
        if getpid() != owner:
            leave(ABORTED)  # a copy made by fork has nothing to say, and no business to run on
        words = [kind] + [field.encode("utf-8", "surrogatepass").hex() or "-" for field in fields]
        payload = " ".join(words).encode()
        state = base.copy()
        state.update(last + payload)
        last = state.hexdigest().encode()
        data = last + b" " + payload + b"\n"
        while data:
            data = data[write(descriptor, data) :]

    return emit


def layers(value: "Any") -> "list[Any]":
    """Every function inside a value, with the parts of it that can be exchanged under its feet."""
    found = []  # type: list[Any]
    rest = [value]
    while rest and len(found) < MOST_LAYERS:
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


def intact(parts: "list[Any]") -> "bool":
    return all(
        item.__code__ is code and item.__defaults__ is defaults and item.__kwdefaults__ is keywords
        for item, code, defaults, keywords in parts
    )


class Watch:
    """Remembers the test machinery as it was, and tells what of it has changed.

    `families` are the packages to watch, `patchers` those of their modules that patch the others by design.
    Only code is compared; counters and caches may change as they like.
    """

    def __init__(self, families: "tuple[str, ...]", patchers: "tuple[str, ...]") -> "None":
        self.families = families
        self.patchers = patchers
        self.allowed = []  # type: list[Any]
        self.modules = {}  # type: dict[str, Any]
        self.entries = []  # type: list[Any]
        self.classes = {}  # type: dict[type, Any]
        self.told = set()  # type: set[str]
        self.clock = time.monotonic
        self.tracers = [
            (name, getattr(sys, "get" + name), getattr(sys, "get" + name)()) for name in ("trace", "profile")
        ]
        self.next_look = 0.0
        for name in BUILTINS:
            self.remember(vars(builtins), "builtins", name)

    def remember(self, holder: "Any", place: "str", name: "str") -> "None":
        value = holder[name]
        if isinstance(value, CODE):
            self.entries.append((holder, place + "." + name, name, value, layers(value)))

    def learn(self) -> "None":
        """Take in the modules of the watched families that are loaded by now."""
        for name, module in list(MODULES.items()):
            if name in self.modules or name.partition(".")[0] not in self.families or module is None:
                continue
            self.modules[name] = module
            for attribute, value in list(vars(module).items()):
                self.remember(vars(module), name, attribute)
                if name in self.patchers:
                    self.allowed += [part[0] for part in layers(value)]
                if isinstance(value, type) and self.is_watched(value) and value not in self.classes:
                    place = name + "." + value.__qualname__
                    self.classes[value] = (place, frozenset(vars(value)))
                    for member in list(vars(value)):
                        self.remember(vars(value), place, member)

    def is_watched(self, kind: "type") -> "bool":
        module = vars(kind).get("__module__")
        return isinstance(module, str) and module.partition(".")[0] in self.families

    def is_allowed(self, value: "Any") -> "bool":
        parts = layers(value)
        return bool(parts) and all(part[0] in self.allowed for part in parts)

    def changes(self) -> "Iterator[str]":
        for holder, place, name, value, parts in self.entries:
            now = holder.get(name, ABSENT)
            if (now is not value and not self.is_allowed(now)) or not intact(parts):
                yield place
        for kind, (place, names) in self.classes.items():
            if len(vars(kind)) != len(names):
                for name in self.additions(kind, names):
                    yield place + "." + name
        for name, module in self.modules.items():
            if MODULES.get(name) is not module:
                yield "sys.modules[" + name + "]"
        for name, get, value in self.tracers:
            if get() is not value:
                yield "sys.set" + name

    def additions(self, kind: "type", names: "frozenset[str]") -> "list[str]":
        new = [(name, value) for name, value in list(vars(kind).items()) if name not in names]
        return [name for name, value in new if isinstance(value, CODE) and not self.is_allowed(value)]

    def look(self) -> "list[str]":
        """Names of what is no longer as it was, each told once.

        Looking costs time: after each look, the next is due only after fifty times as long as it took.
        """
        started = self.clock()
        fresh = [name for name in self.changes() if name not in self.told]
        self.told.update(fresh)
        ended = self.clock()
        self.next_look = ended + 50 * (ended - started)
        return fresh

    def is_due(self) -> "bool":
        return self.clock() >= self.next_look


class Report:
    """What a runner tells: the tests found, then each one's start and finish."""

    def __init__(self, emit: "Any", watch: "Watch", job: "dict[str, Any]", leave: "Any") -> "None":
        self.emit = emit
        self.leave = leave
        self.watch = watch
        self.job = job
        self.has_begun = False
        self.has_broken = False
        self.count = 0
        self.tests = {}  # type: dict[str, Any]

    def begin(self) -> "None":
        """The machinery is loaded: let the workspace in."""
        distrust_caches(self.job["workdir"])
        self.has_begun = True
        self.emit("ready")
        open_workspace(self.job, self.watch.families)

    def collect(self, test_id: "str", holder: "Any", name: "str") -> "None":
        """A test was found: the function `name` of a class or module."""
        self.count += 1
        function = getattr(holder, name, None)
        if isinstance(function, FUNCTION):
            self.tests[test_id] = (holder, name, function, layers(function))
        self.emit("collect", test_id)

    def collected(self) -> "None":
        self.look()
        self.emit("collected", str(self.count))

    def broken(self, place: "str", text: "str") -> "None":
        """Something that is no test went wrong."""
        self.has_broken = True
        self.emit("broken", place, text[-2000:])

    def start(self, test_id: "str") -> "None":
        self.check(test_id)
        self.emit("start", test_id)

    def finish(self, test_id: "str", status: "str") -> "None":
        self.check(test_id)
        if self.watch.is_due():
            self.look()
        self.emit("finish", test_id, status)

    def check(self, test_id: "str") -> "None":
        """A test that was exchanged since it was found is not the test that was asked for."""
        if test_id in self.tests:
            holder, name, function, parts = self.tests[test_id]
            if getattr(holder, name, None) is not function or not intact(parts):
                self.tampered("the code of " + test_id)

    def look(self) -> "None":
        for name in self.watch.look():
            self.tampered(name)

    def tampered(self, name: "str") -> "None":
        self.emit("tampered", name)

    def stop(self, why: "str") -> "None":
        """Leave at once, without results."""
        self.emit("aborted", why)
        self.leave(ABORTED)

    def final(self, code: "int") -> "None":
        self.look()
        self.emit("final", str(code))


def open_site() -> "None":
    """Do what `site` does at start-up but for user directories and sitecustomize, which can lie in the workspace."""
    site.addsitepackages(site.venv(site.removeduppaths()) or set())
    site.setquit()
    site.setcopyright()
    site.sethelper()


def open_workspace(job: "dict[str, Any]", families: "tuple[str, ...]") -> "None":
    """Make the workspace importable, and let its modules win over ours as they would in a plain run."""
    work = job["workdir"]
    os.chdir(work)
    directories = [os.path.normpath(os.path.join(work, entry)) for entry in job["paths"]]
    if job["pythonpath"]:
        os.environ["PYTHONPATH"] = job["pythonpath"]
        directories += [os.path.abspath(entry) for entry in job["pythonpath"].split(os.pathsep)]
    sys.path[:0] = [entry for entry in directories if entry not in sys.path]
    names = {name for directory in directories for name in module_names(directory)}
    for loaded in list(MODULES):
        top = loaded.partition(".")[0]
        if top in names and top not in families and top not in BOOTED:
            del MODULES[loaded]


def module_names(directory: "str") -> "list[str]":
    try:
        entries = os.listdir(directory)
    except OSError:
        return []
    packages = [name for name in entries if os.path.isfile(os.path.join(directory, name, "__init__.py"))]
    return packages + [name[:-3] for name in entries if name.endswith(".py")]


def distrust_caches(work: "str") -> "None":
    """Let no bytecode that lies in the workspace stand in for a source file: a cache need not match its source."""
    external = MODULES["_frozen_importlib_external"]  # type: Any
    original = external.cache_from_source
    inside = os.path.join(work, "")

    def cache_from_source(path: "Any", *arguments: "Any", **options: "Any") -> "Any":
        if os.fspath(path).startswith(inside):
            raise NotImplementedError  # what importlib takes to mean: there is no cache
        return original(path, *arguments, **options)

    external.cache_from_source = cache_from_source


def main(job: "dict[str, Any]", leave: "Any" = os._exit) -> "None":
    token, records = int(sys.argv[2]), int(sys.argv[3])
    os.set_inheritable(records, False)
    emit = make_emit(records, os.read(token, 32))
    os.close(token)
    open_site()
    runner = {"__name__": "proctor_runner", "__builtins__": dict(vars(builtins))}  # type: dict[str, Any]
    exec(compile(job["runner"], "<proctor>", "exec"), runner)
    report = Report(emit, Watch(runner["FAMILIES"], runner["PATCHERS"]), job, leave)
    try:
        code = runner["run"](report, job)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        report.final(code)
    except BaseException as error:
        # Before the workspace is let in, an error is the room's and safe to print; later its text may be a trap.
        report.stop(type(error).__name__ if report.has_begun else f"{type(error).__name__}: {error}")
    leave(0)
