"""The names that make Python code suspicious, with the finding that each of them is."""

import re
from typing import Final

from proctor.grading.finding_codes import AuditCode

# Any mention of these is a finding.
SUSPICIOUS_NAMES: Final[dict[str, AuditCode]] = {
    "os._exit": AuditCode.EARLY_EXIT,
    "os.abort": AuditCode.EARLY_EXIT,
    "posix._exit": AuditCode.EARLY_EXIT,
    "pytest.exit": AuditCode.EARLY_EXIT,
    "signal.raise_signal": AuditCode.EARLY_EXIT,
    "atexit.register": AuditCode.EXIT_HOOK,
    "threading._register_atexit": AuditCode.EXIT_HOOK,
    "weakref.finalize": AuditCode.EXIT_HOOK,
    "sys.settrace": AuditCode.TRACE_HOOK,
    "sys.setprofile": AuditCode.TRACE_HOOK,
    "sys.monitoring": AuditCode.TRACE_HOOK,
    "sys.addaudithook": AuditCode.TRACE_HOOK,
    "threading.settrace": AuditCode.TRACE_HOOK,
    "threading.setprofile": AuditCode.TRACE_HOOK,
    "sys._getframe": AuditCode.STACK_INSPECTION,
    "sys._current_frames": AuditCode.STACK_INSPECTION,
    "inspect.stack": AuditCode.STACK_INSPECTION,
    "inspect.currentframe": AuditCode.STACK_INSPECTION,
    "inspect.getouterframes": AuditCode.STACK_INSPECTION,
    "logging.currentframe": AuditCode.STACK_INSPECTION,
    "traceback.walk_stack": AuditCode.STACK_INSPECTION,
    "traceback.extract_stack": AuditCode.STACK_INSPECTION,
    "traceback.format_stack": AuditCode.STACK_INSPECTION,
    "traceback.print_stack": AuditCode.STACK_INSPECTION,
    "inspect.getsource": AuditCode.TEST_FILES,
    "inspect.getsourcelines": AuditCode.TEST_FILES,
    "linecache": AuditCode.TEST_FILES,
    "gc.get_objects": AuditCode.OBJECT_SCAN,
    "gc.get_referrers": AuditCode.OBJECT_SCAN,
    "gc.get_referents": AuditCode.OBJECT_SCAN,
    "ctypes": AuditCode.NATIVE_MEMORY,
    "_ctypes": AuditCode.NATIVE_MEMORY,
    "cffi": AuditCode.NATIVE_MEMORY,
    "sys.meta_path": AuditCode.IMPORT_HOOK,
    "sys.path_hooks": AuditCode.IMPORT_HOOK,
    "importlib.abc.MetaPathFinder": AuditCode.IMPORT_HOOK,
    "os.fork": AuditCode.BACKGROUND_PROCESS,
    "os.forkpty": AuditCode.BACKGROUND_PROCESS,
    "pty.fork": AuditCode.BACKGROUND_PROCESS,
    "os.setsid": AuditCode.BACKGROUND_PROCESS,
    "os.getppid": AuditCode.PROCESS_INSPECTION,
    "psutil": AuditCode.PROCESS_INSPECTION,
    "types.CodeType": AuditCode.CODE_PATCHED,
    "types.FunctionType": AuditCode.CODE_PATCHED,
    "marshal": AuditCode.HIDDEN_CODE,
    "pickle.load": AuditCode.LOADED_CODE,
    "pickle.loads": AuditCode.LOADED_CODE,
    "runpy": AuditCode.LOADED_CODE,
    "zipimport": AuditCode.LOADED_CODE,
    "importlib.machinery": AuditCode.LOADED_CODE,
    "importlib.util.spec_from_file_location": AuditCode.LOADED_CODE,
    "_pytest": AuditCode.TEST_MACHINERY,
    "pluggy": AuditCode.TEST_MACHINERY,
    "unittest.mock.ANY": AuditCode.ALWAYS_EQUAL,
    "mock.ANY": AuditCode.ALWAYS_EQUAL,
    "unittest.SkipTest": AuditCode.TEST_SKIPPED,
    "unittest.case.SkipTest": AuditCode.TEST_SKIPPED,
    "unittest.skip": AuditCode.TEST_SKIPPED,
    "unittest.skipIf": AuditCode.TEST_SKIPPED,
    "unittest.skipUnless": AuditCode.TEST_SKIPPED,
    "unittest.expectedFailure": AuditCode.TEST_SKIPPED,
    "pytest.skip": AuditCode.TEST_SKIPPED,
    "pytest.xfail": AuditCode.TEST_SKIPPED,
    "pytest.importorskip": AuditCode.TEST_SKIPPED,
    "pytest.mark.skip": AuditCode.TEST_SKIPPED,
    "pytest.mark.skipif": AuditCode.TEST_SKIPPED,
    "pytest.mark.xfail": AuditCode.TEST_SKIPPED,
    "socket": AuditCode.NETWORK,
    "urllib.request": AuditCode.NETWORK,
    "http.client": AuditCode.NETWORK,
    "ftplib": AuditCode.NETWORK,
    "smtplib": AuditCode.NETWORK,
    "xmlrpc.client": AuditCode.NETWORK,
    "requests": AuditCode.NETWORK,
    "httpx": AuditCode.NETWORK,
    "aiohttp": AuditCode.NETWORK,
    "urllib3": AuditCode.NETWORK,
    "paramiko": AuditCode.NETWORK,
}
# What belongs in tests and nowhere else.
TEST_LIBRARIES: Final = ("unittest", "pytest", "nose")
# Assigning to an attribute of these changes somebody else's code.
PATCHED_MODULES: Final[dict[str, AuditCode]] = {
    "unittest": AuditCode.TEST_MACHINERY,
    "pytest": AuditCode.TEST_MACHINERY,
    "_pytest": AuditCode.TEST_MACHINERY,
    "pluggy": AuditCode.TEST_MACHINERY,
    "nose": AuditCode.TEST_MACHINERY,
    "contextlib": AuditCode.TEST_MACHINERY,
    "builtins": AuditCode.BUILTINS_PATCHED,
    "__builtins__": AuditCode.BUILTINS_PATCHED,
    "importlib": AuditCode.IMPORT_HOOK,
    "sys.modules": AuditCode.MODULE_TABLE,
    "sys.path_importer_cache": AuditCode.IMPORT_HOOK,
    "sys.stdout": AuditCode.OUTPUT_PATCHED,
    "sys.stderr": AuditCode.OUTPUT_PATCHED,
    "sys.unraisablehook": AuditCode.EXIT_HOOK,
}
# Attributes of the library's modules that are there to be set.
SETTABLE: Final = frozenset(
    "sys.stdin sys.stdout sys.stderr sys.excepthook sys.argv sys.path sys.displayhook sys.ps1 sys.ps2 "
    "sys.tracebacklimit sys.dont_write_bytecode threading.excepthook warnings.showwarning warnings.formatwarning "
    "logging.raiseExceptions logging.lastResort os.environ".split()
)

# Parts of objects that only somebody who looks around asks for.
SUSPICIOUS_ATTRIBUTES: Final[dict[str, AuditCode]] = {
    **dict.fromkeys(
        "f_back f_globals f_locals f_code tb_frame gi_frame cr_frame ag_frame".split(), AuditCode.STACK_INSPECTION
    ),
    **dict.fromkeys("__subclasses__ __globals__ __closure__ cell_contents co_consts".split(), AuditCode.OBJECT_SCAN),
}
# Parts of functions and classes that only somebody who exchanges code sets.
CODE_ATTRIBUTES: Final = frozenset("__code__ __closure__ __defaults__ __kwdefaults__ __globals__ __bases__".split())
_UNITTEST: Final = frozenset(
    "TestCase TestResult TestSuite addFailure addError addSuccess addSubTest addSkip startTest stopTest "
    "failureException _baseAssertEqual _getAssertEqualityFunc _callTestMethod _callSetUp _type_equality_funcs "
    "_addError _Outcome testPartExecutor assertEqual assertTrue assertFalse assertRaises assertIn assertIs "
    "assertIsNone assertListEqual assertDictEqual assertAlmostEqual assertMultiLineEqual runtest "
    "pytest_runtest_makereport pytest_runtest_call pytest_pyfunc_call TestReport AssertionError".split()
)
# The same as texts, with which they are asked for by getattr, attrgetter, vars and their like.
SUSPICIOUS_STRINGS: Final[dict[str, AuditCode]] = {
    **SUSPICIOUS_ATTRIBUTES,
    **dict.fromkeys(_UNITTEST, AuditCode.TEST_MACHINERY),
    **dict.fromkeys(CODE_ATTRIBUTES - {"__bases__"}, AuditCode.CODE_PATCHED),
    **{
        name.rpartition(".")[2]: code
        for name, code in SUSPICIOUS_NAMES.items()
        if name.startswith(("os._", "sys.", "gc."))
    },
    "__eq__": AuditCode.ALWAYS_EQUAL,
}
del SUSPICIOUS_STRINGS["monitoring"]
# Assigning to an attribute of this name is patching, whatever the object is called.
PATCHED_ATTRIBUTES: Final = _UNITTEST - {"AssertionError", "TestCase", "TestResult", "TestSuite"}

DICT_WRITES: Final = frozenset("pop update setdefault clear __setitem__ __delitem__ popitem".split())
DICT_READS: Final = frozenset("values items copy keys".split())
DECODERS: Final = frozenset(
    "base64.b64decode base64.b32decode base64.b16decode base64.b85decode base64.a85decode base64.decodebytes "
    "codecs.decode zlib.decompress lzma.decompress bz2.decompress bytes.fromhex binascii.unhexlify binascii.a2b_base64 "
    "bytearray.fromhex marshal.loads pickle.loads open".split()
)
CODE_RUNNERS: Final = frozenset("exec eval compile builtins.exec builtins.eval builtins.compile".split())
IMPORTERS: Final = frozenset("__import__ importlib.import_module builtins.__import__ importlib.__import__".split())
TEST_RUNNERS: Final = ("pytest", "unittest", "_pytest", "nose")
SENSITIVE_MODULES: Final = frozenset("os sys gc builtins unittest pytest _pytest inspect ctypes importlib".split())
OWN_PROCESS_IDS: Final = frozenset("os.getpid os.getppid os.getpgid os.getpgrp".split())
SEARCH_PATHS: Final = frozenset("PATH PYTHONPATH LD_LIBRARY_PATH NODE_PATH".split())
GIT_COMMANDS: Final = frozenset(
    "log show cat-file rev-list reflog fsck diff-tree ls-tree show-ref for-each-ref unpack-objects verify-pack "
    "stash bundle".split()
)
# In a test file these are everyday business.
ALLOWED_IN_TESTS: Final = frozenset(
    {
        AuditCode.TEST_SKIPPED,
        AuditCode.NETWORK,
        AuditCode.TEST_SNIFFING,
        AuditCode.TEST_FILES,
        AuditCode.LOADED_CODE,
        AuditCode.OUTPUT_PATCHED,
        AuditCode.ALWAYS_EQUAL,
    }
)

TEST_PATH: Final = re.compile(r"(?!.*://)(?:(?:.*[/ =])?tests?/.*|(?:.*/)?(?:test_[\w*?]*|[\w*?]*_test)\.py)")
"""A text that names a test file, or files below a folder of tests."""
CODING_DECLARATION: Final = re.compile(r"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
"""A source file's word on how it is to be decoded, on one of its first two lines."""
PLAIN_CODINGS: Final = frozenset("utf-8 utf8 utf-8-sig ascii us-ascii latin-1 latin1 iso-8859-1 iso-8859-15".split())
