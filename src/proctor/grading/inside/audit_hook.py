"""Detects what code of the workspace does that no honest program needs to do, however it is written.

Python reports to its audit hooks frames that are requested, memory that is searched, code that is replaced and files
that are opened, before it happens; and no hook can be removed. What is detected is reported at once: it changes no
verdict, it is evidence for the integrity audit.
"""

import os
import re
import sys
from _thread import get_ident

MYPY = False
if MYPY:
    from typing import Any

# Reported also when code of the library does it for its caller, however far below.
INDIRECT_EVENTS = frozenset(
    "gc.get_objects gc.get_referrers gc.get_referents sys._current_frames sys._current_exceptions".split()
)
# Reported only of code of the workspace that does it itself; the library does it all the time.
DIRECT_EVENTS = frozenset(
    "sys._getframe object.__getattr__ object.__setattr__ code.__new__ sys.settrace sys.setprofile sys.addaudithook "
    "marshal.loads marshal.load exec compile os.fork os.forkpty".split()
)
# In the library, but made to return frames.
FRAME_FUNCTIONS = frozenset(
    "currentframe stack extract_stack format_stack print_stack walk_stack getouterframes <lambda>".split()
)
WATCHED_ATTRIBUTES = frozenset(
    "tb_frame gi_frame cr_frame ag_frame f_code __code__ __defaults__ __kwdefaults__ gi_code cr_code".split()
)
# These open sources to show lines of them to people.
SOURCE_PRINTERS = ("traceback.py", "warnings.py", "pdb.py", "doctest.py")
TEST_FILE = re.compile(r"(?:.*/)?(?:tests?/(?:.*/)?[^/]*|test[^/]*|[^/]*_tests?)\.py")
PROC_PATH = re.compile(r"/proc/(?:self|thread-self|\d+)/")


def make_audit_hook(report_event: "Any", workdir: "str", getframe: "Any" = sys._getframe) -> "Any":
    """An audit hook that calls `report_event` with an event and the file of the workspace that caused it.

    `without_events` calls a function of ours that would only see itself.
    """
    inside = os.path.join(workdir, "")
    library = os.path.join(os.path.dirname(os.__file__), "")
    packages = os.path.join(library, "site-packages", "")
    busy = set()  # type: set[int]
    reported = set()  # type: set[tuple[str, str]]

    def is_library(name: "str") -> "bool":
        return name.startswith("<frozen") or (name.startswith(library) and not name.startswith(packages))

    def event_name(event: "str", arguments: "Any") -> "str | None":
        """The name under which the event is reported; None when it is not reported."""
        if event in INDIRECT_EVENTS:
            return event
        if event.startswith("ctypes."):
            return "ctypes"
        if event == "open":
            return open_event_name(arguments[0])
        if event not in DIRECT_EVENTS:
            return None
        if event in ("object.__getattr__", "object.__setattr__"):
            verb = "reads" if event.endswith("getattr__") else "sets"
            return verb + " " + arguments[1] if arguments[1] in WATCHED_ATTRIBUTES else None
        return event

    def open_event_name(path: "Any") -> "str | None":
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if not isinstance(path, str):
            return None
        if PROC_PATH.match(path):
            return "opens /proc"
        full = os.path.normpath(os.path.join(workdir, path))
        if full.startswith(inside) and TEST_FILE.fullmatch(full[len(inside) :]):
            return "opens a test"
        return None

    def responsible_file(event: "str", name: "str", frame: "Any") -> "str | None":
        """The file of the workspace that is responsible; None when none is."""
        while frame is not None:
            code = frame.f_code
            file = code.co_filename
            if file.startswith(inside):
                return str(file[len(inside) :])
            if not is_library(file) or not is_transparent(event, name, code):
                return None
            frame = frame.f_back
        return "a thread" if event in INDIRECT_EVENTS else None

    def is_transparent(event: "str", name: "str", code: "Any") -> "bool":
        """Whether what this function of the library does is its caller's doing."""
        if event == "sys._getframe":
            return code.co_name in FRAME_FUNCTIONS
        if name == "opens a test":
            # An import reads sources too, but through `get_code`.
            return not code.co_filename.endswith(SOURCE_PRINTERS) and code.co_name not in ("get_code", "exec_module")
        return event in INDIRECT_EVENTS or event == "open" or event.startswith("ctypes.")

    def hook(event: "str", arguments: "Any") -> "None":
        thread = get_ident()
        if thread in busy:
            return  # looking at frames is an event itself
        busy.add(thread)
        try:
            name = event_name(event, arguments)
            if name is not None:
                place = responsible_file(event, name, getframe(1))
                if place is not None and (name, place) not in reported:
                    reported.add((name, place))
                    report_event(name, place)
        except Exception:
            return  # what cannot be reported must not fail for it
        finally:
            busy.discard(thread)

    def without_events(function: "Any", *arguments: "Any") -> "Any":
        thread = get_ident()
        busy.add(thread)
        try:
            return function(*arguments)
        finally:
            busy.discard(thread)

    namespace = type(sys.implementation)()  # type: Any
    namespace.hook, namespace.without_events = hook, without_events
    return namespace
