"""The half of a test run that shares its process with the tested code, and so expects the worst of it.

It takes what it needs before anything of the workspace is imported: its functions see a private copy of the
builtins, and call `os.write` and the like through references of their own. Nothing that the workspace can reach leads
to it: no class of it is used after the workspace is let in, and what it leaves in modules of others has a namespace
of its own. It watches the test machinery for changes, and reports them. What hostile code can still do from
inside the same interpreter, it does to altered tests too (`grading.controls`).
"""

import builtins
import os
import site
import sys
from _blake2 import blake2b
from _thread import allocate_lock, get_ident

MYPY = False
if MYPY:
    from typing import Any

MODULES = sys.modules
MODULES_AT_START = frozenset(MODULES)
FUNCTION = type(lambda: None)  # type: Any
EXIT_ABORTED = 70


def make_emit(
    descriptor: "int", token: "bytes", write: "Any" = os.write, getpid: "Any" = os.getpid, leave: "Any" = os._exit
) -> "Any":
    """The one way out for records: a function that nothing but its holder can reach by name."""
    base = blake2b(key=token, digest_size=16)
    owner = getpid()
    lock = allocate_lock()
    waiting = []  # type: list[bytes]
    last = b""
    sender = None  # type: int | None
    is_over = False

    def emit(kind: "str", *fields: "str") -> "None":
        nonlocal sender, is_over
        if getpid() != owner:
            leave(EXIT_ABORTED)  # a copy made by fork has nothing to report, and must not run on
        if is_over:
            return
        is_over = kind == "final"
        words = [kind] + [field.encode("utf-8", "surrogatepass").hex() or "-" for field in fields]
        waiting.append(" ".join(words).encode())
        if sender == get_ident():
            return  # from a signal handler in the middle of `send`, which will come to it
        with lock:
            sender = get_ident()
            while waiting:
                send(waiting.pop(0))
            sender = None

    def send(payload: "bytes") -> "None":
        nonlocal last
        state = base.copy()
        state.update(last + payload)
        last = state.hexdigest().encode()
        data = last + b" " + payload + b"\n"
        while data:
            data = data[write(descriptor, data) :]

    return emit


def make_reporter(emit: "Any", watch: "Any", watch_functions: "dict[str, Any]", leave: "Any") -> "Any":
    """What a runner reports with: the tests found, then each one's start and finish."""
    function_parts, are_unchanged = watch_functions["function_parts"], watch_functions["are_unchanged"]
    hiding = watch_functions["hiding"]
    tests = {}  # type: dict[str, Any]
    count = 0
    has_begun = has_broken = False

    def begin(open_workspace: "Any") -> "None":
        """The machinery is loaded: make the workspace importable."""
        nonlocal has_begun
        has_begun = True
        emit("ready")
        open_workspace()

    def collect(test_id: "str", holder: "Any", name: "str") -> "None":
        """A test was found: the function `name` of a class or module."""
        nonlocal count
        count += 1
        function = getattr(holder, name, None)
        if isinstance(function, FUNCTION):
            tests[test_id] = (holder, name, function, function_parts(function), hiding(function.__globals__))
        emit("collect", test_id)

    def collected() -> "None":
        report_changes()
        emit("collected", str(count))

    def broken(place: "str", text: "str") -> "None":
        """Something that is no test went wrong."""
        nonlocal has_broken
        has_broken = True
        emit("broken", place, text[-2000:])

    def start(test_id: "str") -> "None":
        check(test_id)
        emit("start", test_id)

    def finish(test_id: "str", status: "str") -> "None":
        check(test_id)
        if watch.is_due():
            report_changes()
        emit("finish", test_id, status)

    def check(test_id: "str") -> "None":
        """A test that was exchanged since it was found is not the test that was asked for."""
        if test_id in tests:
            holder, name, function, layered, hidden = tests[test_id]
            if getattr(holder, name, None) is not function or not are_unchanged(layered):
                tampered("the code of " + test_id)
            if hiding(function.__globals__) - hidden:
                tampered("the names around " + test_id)

    def report_changes() -> "None":
        for name in watch.find_changes():
            tampered(name)

    def tampered(name: "str") -> "None":
        emit("tampered", name)

    def stop(why: "str") -> "None":
        """Leave at once, without results."""
        emit("aborted", why)
        leave(EXIT_ABORTED)

    def final(code: "int") -> "None":
        report_changes()
        emit("final", str(code))

    def is_begun() -> "bool":
        return has_begun

    def is_broken() -> "bool":
        return has_broken

    report = type(sys.implementation)()  # type: Any
    report.begin, report.collect, report.collected, report.broken = begin, collect, collected, broken
    report.start, report.finish, report.tampered, report.stop, report.final = start, finish, tampered, stop, final
    report.is_begun, report.is_broken, report.watch_class = is_begun, is_broken, watch.add
    report.add_loaded_modules = watch.add_loaded_modules
    return report


def set_up_site() -> "None":
    """Do what `site` does at start-up but for user directories and sitecustomize, which can lie in the workspace."""
    site.addsitepackages(site.venv(site.removeduppaths()) or set())
    site.setquit()
    site.setcopyright()
    site.sethelper()


def open_workspace(job: "dict[str, Any]", packages: "tuple[str, ...]") -> "None":
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
        if top in names and top not in packages and top not in MODULES_AT_START:
            del MODULES[loaded]


def module_names(directory: "str") -> "list[str]":
    try:
        entries = os.listdir(directory)
    except OSError:
        return []
    packages = [name for name in entries if os.path.isfile(os.path.join(directory, name, "__init__.py"))]
    return packages + [name[:-3] for name in entries if name.endswith(".py")]


def ignore_workspace_bytecode(work: "str") -> "None":
    """Let no bytecode that lies in the workspace stand in for a source file: a cache need not match its source."""
    external = MODULES["_frozen_importlib_external"]  # type: Any
    original = external.cache_from_source
    inside = os.path.join(work, "")

    def cache_from_source(path: "Any", *arguments: "Any", fspath: "Any" = os.fspath, **options: "Any") -> "Any":
        if fspath(path).startswith(inside):
            raise NotImplementedError  # what importlib takes to mean: there is no cache
        return original(path, *arguments, **options)

    external.cache_from_source = without_globals(cache_from_source)


def without_globals(function: "Any") -> "Any":
    """The same function without a way to the names around it, to be left where others find it."""
    names = {"__builtins__": dict(vars(builtins))}  # type: dict[str, Any]
    made = FUNCTION(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def exec_part(source: "Any") -> "dict[str, Any]":
    """Run a part of the reporter, compiled or not, in a namespace of its own."""
    names = {"__name__": "proctor_runner", "__builtins__": dict(vars(builtins))}  # type: dict[str, Any]
    exec(compile(source, "<proctor>", "exec") if isinstance(source, str) else source, names)
    return names


def private_directory(name: "str", content: "str") -> "str":
    """A fresh directory, under a name that cannot be guessed, with one file: the configuration that pytest reads."""
    fresh = os.path.join(os.environ.get("TMPDIR") or "/tmp", "proctor-" + os.urandom(16).hex())
    directory = os.environ.pop("PROCTOR_PRIVATE", fresh)
    os.mkdir(directory, 0o700)
    with open(os.path.join(directory, name), "wb") as file:
        file.write(content.encode("utf-8", "surrogateescape"))
    return directory


def print_places(trace: "Any") -> "None":
    """Print where an error came from to the log: places only, as its text may be a trap."""
    while trace is not None:
        code = trace.tb_frame.f_code
        place = "proctor: at %s:%d, in %s\n" % (code.co_filename, trace.tb_lineno, code.co_name)
        os.write(2, place.encode("utf-8", "backslashreplace"))
        trace = trace.tb_next


def main(job: "dict[str, Any]", leave: "Any" = os._exit) -> "None":
    token, records = int(sys.argv[2]), int(sys.argv[3])
    os.set_inheritable(records, False)
    emit = make_emit(records, os.read(token, 32))
    os.close(token)
    set_up_site()
    job["pythonpath"] = os.environ.pop("PROCTOR_PYTHONPATH", "")
    if job.get("config_name"):
        job["private"] = private_directory(job["config_name"], job["config_text"])
    os.environ.pop("PROCTOR_PRIVATE", None)
    runner, watching = exec_part(job["runner"]), exec_part(job["tamper_watch"])
    watch = watching["make_tamper_watch"](runner["WATCHED_PACKAGES"], runner["PATCHING_MODULES"])
    report = make_reporter(emit, watch, watching, leave)
    job["without_globals"], job["exec_part"] = without_globals, exec_part
    ignore_workspace_bytecode(job["workdir"])
    try:
        code = runner["run"](report, job, lambda: open_workspace(job, runner["WATCHED_PACKAGES"]))
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        report.final(code)
    except BaseException as error:
        # Before the workspace is loaded, an error is the environment's and safe to print; later its text may be a trap.
        print_places(sys.exc_info()[2])
        report.stop(type(error).__name__ if report.is_begun() else f"{type(error).__name__}: {error}")
    leave(0)


if MYPY:
    JOB = {}  # type: dict[str, Any]  # given by what starts this program
