"""The names that give Python code away, and what each of them says."""

import re
from typing import Final

from proctor.grading.audit.codes import Code

# Any mention of these says enough.
NAMES: Final[dict[str, Code]] = {
    "os._exit": Code.EARLY_EXIT,
    "os.abort": Code.EARLY_EXIT,
    "posix._exit": Code.EARLY_EXIT,
    "pytest.exit": Code.EARLY_EXIT,
    "signal.raise_signal": Code.EARLY_EXIT,
    "atexit.register": Code.EXIT_HOOK,
    "threading._register_atexit": Code.EXIT_HOOK,
    "weakref.finalize": Code.EXIT_HOOK,
    "sys.settrace": Code.TRACE_HOOK,
    "sys.setprofile": Code.TRACE_HOOK,
    "sys.monitoring": Code.TRACE_HOOK,
    "sys.addaudithook": Code.TRACE_HOOK,
    "threading.settrace": Code.TRACE_HOOK,
    "threading.setprofile": Code.TRACE_HOOK,
    "sys._getframe": Code.STACK_INSPECTION,
    "sys._current_frames": Code.STACK_INSPECTION,
    "inspect.stack": Code.STACK_INSPECTION,
    "inspect.currentframe": Code.STACK_INSPECTION,
    "inspect.getouterframes": Code.STACK_INSPECTION,
    "logging.currentframe": Code.STACK_INSPECTION,
    "traceback.walk_stack": Code.STACK_INSPECTION,
    "traceback.extract_stack": Code.STACK_INSPECTION,
    "traceback.format_stack": Code.STACK_INSPECTION,
    "traceback.print_stack": Code.STACK_INSPECTION,
    "inspect.getsource": Code.TEST_FILES,
    "inspect.getsourcelines": Code.TEST_FILES,
    "linecache": Code.TEST_FILES,
    "gc.get_objects": Code.OBJECT_SCAN,
    "gc.get_referrers": Code.OBJECT_SCAN,
    "gc.get_referents": Code.OBJECT_SCAN,
    "ctypes": Code.NATIVE_MEMORY,
    "_ctypes": Code.NATIVE_MEMORY,
    "cffi": Code.NATIVE_MEMORY,
    "sys.meta_path": Code.IMPORT_HOOK,
    "sys.path_hooks": Code.IMPORT_HOOK,
    "importlib.abc.MetaPathFinder": Code.IMPORT_HOOK,
    "os.fork": Code.BACKGROUND_PROCESS,
    "os.forkpty": Code.BACKGROUND_PROCESS,
    "pty.fork": Code.BACKGROUND_PROCESS,
    "os.setsid": Code.BACKGROUND_PROCESS,
    "os.getppid": Code.PROCESS_INSPECTION,
    "psutil": Code.PROCESS_INSPECTION,
    "types.CodeType": Code.CODE_PATCHED,
    "types.FunctionType": Code.CODE_PATCHED,
    "marshal": Code.HIDDEN_CODE,
    "pickle.load": Code.LOADED_CODE,
    "pickle.loads": Code.LOADED_CODE,
    "runpy": Code.LOADED_CODE,
    "zipimport": Code.LOADED_CODE,
    "importlib.machinery": Code.LOADED_CODE,
    "importlib.util.spec_from_file_location": Code.LOADED_CODE,
    "_pytest": Code.TEST_MACHINERY,
    "pluggy": Code.TEST_MACHINERY,
    "unittest.mock.ANY": Code.ALWAYS_EQUAL,
    "mock.ANY": Code.ALWAYS_EQUAL,
    "unittest.SkipTest": Code.TEST_SKIPPED,
    "unittest.case.SkipTest": Code.TEST_SKIPPED,
    "unittest.skip": Code.TEST_SKIPPED,
    "unittest.skipIf": Code.TEST_SKIPPED,
    "unittest.skipUnless": Code.TEST_SKIPPED,
    "unittest.expectedFailure": Code.TEST_SKIPPED,
    "pytest.skip": Code.TEST_SKIPPED,
    "pytest.xfail": Code.TEST_SKIPPED,
    "pytest.importorskip": Code.TEST_SKIPPED,
    "pytest.mark.skip": Code.TEST_SKIPPED,
    "pytest.mark.skipif": Code.TEST_SKIPPED,
    "pytest.mark.xfail": Code.TEST_SKIPPED,
    "socket": Code.NETWORK,
    "urllib.request": Code.NETWORK,
    "http.client": Code.NETWORK,
    "ftplib": Code.NETWORK,
    "smtplib": Code.NETWORK,
    "xmlrpc.client": Code.NETWORK,
    "requests": Code.NETWORK,
    "httpx": Code.NETWORK,
    "aiohttp": Code.NETWORK,
    "urllib3": Code.NETWORK,
    "paramiko": Code.NETWORK,
}
# What belongs in tests and nowhere else.
FOR_TESTS: Final = ("unittest", "pytest", "nose")
# Assigning to an attribute of these changes somebody else's code.
OWNERS: Final[dict[str, Code]] = {
    "unittest": Code.TEST_MACHINERY,
    "pytest": Code.TEST_MACHINERY,
    "_pytest": Code.TEST_MACHINERY,
    "pluggy": Code.TEST_MACHINERY,
    "nose": Code.TEST_MACHINERY,
    "contextlib": Code.TEST_MACHINERY,
    "builtins": Code.BUILTINS_PATCHED,
    "__builtins__": Code.BUILTINS_PATCHED,
    "importlib": Code.IMPORT_HOOK,
    "sys.modules": Code.MODULE_TABLE,
    "sys.path_importer_cache": Code.IMPORT_HOOK,
    "sys.stdout": Code.OUTPUT_PATCHED,
    "sys.stderr": Code.OUTPUT_PATCHED,
    "sys.unraisablehook": Code.EXIT_HOOK,
}
# Attributes of the library's modules that are there to be set.
SETTABLE: Final = frozenset(
    "sys.stdin sys.stdout sys.stderr sys.excepthook sys.argv sys.path sys.displayhook sys.ps1 sys.ps2 "
    "sys.tracebacklimit sys.dont_write_bytecode threading.excepthook warnings.showwarning warnings.formatwarning "
    "logging.raiseExceptions logging.lastResort os.environ".split()
)

# Parts of objects that only somebody who looks around asks for.
PARTS: Final[dict[str, Code]] = {
    **dict.fromkeys(
        "f_back f_globals f_locals f_code tb_frame gi_frame cr_frame ag_frame".split(), Code.STACK_INSPECTION
    ),
    **dict.fromkeys("__subclasses__ __globals__ __closure__ cell_contents co_consts".split(), Code.OBJECT_SCAN),
}
# Parts of functions and classes that only somebody who exchanges code sets.
CODE_PARTS: Final = frozenset("__code__ __closure__ __defaults__ __kwdefaults__ __globals__ __bases__".split())
_UNITTEST: Final = frozenset(
    "TestCase TestResult TestSuite addFailure addError addSuccess addSubTest addSkip startTest stopTest "
    "failureException _baseAssertEqual _getAssertEqualityFunc _callTestMethod _callSetUp _type_equality_funcs "
    "_addError _Outcome testPartExecutor assertEqual assertTrue assertFalse assertRaises assertIn assertIs "
    "assertIsNone assertListEqual assertDictEqual assertAlmostEqual assertMultiLineEqual runtest "
    "pytest_runtest_makereport pytest_runtest_call pytest_pyfunc_call TestReport AssertionError".split()
)
# The same as texts, with which they are asked for by getattr, attrgetter, vars and their like.
TEXTS: Final[dict[str, Code]] = {
    **PARTS,
    **dict.fromkeys(_UNITTEST, Code.TEST_MACHINERY),
    **dict.fromkeys(CODE_PARTS - {"__bases__"}, Code.CODE_PATCHED),
    **{name.rpartition(".")[2]: code for name, code in NAMES.items() if name.startswith(("os._", "sys.", "gc."))},
    "__eq__": Code.ALWAYS_EQUAL,
}
del TEXTS["monitoring"]
# Assigning to an attribute of this name is patching, whatever the object is called.
PATCHED: Final = _UNITTEST - {"AssertionError", "TestCase", "TestResult", "TestSuite"}

TABLE_CHANGES: Final = frozenset("pop update setdefault clear __setitem__ __delitem__ popitem".split())
TABLE_WALKS: Final = frozenset("values items copy keys".split())
DECODERS: Final = frozenset(
    "base64.b64decode base64.b32decode base64.b16decode base64.b85decode base64.a85decode base64.decodebytes "
    "codecs.decode zlib.decompress lzma.decompress bz2.decompress bytes.fromhex binascii.unhexlify binascii.a2b_base64 "
    "bytearray.fromhex marshal.loads pickle.loads open".split()
)
RUNNERS: Final = frozenset("exec eval compile builtins.exec builtins.eval builtins.compile".split())
IMPORTERS: Final = frozenset("__import__ importlib.import_module builtins.__import__ importlib.__import__".split())
TEST_RUNNERS: Final = ("pytest", "unittest", "_pytest", "nose")
SENSITIVE: Final = frozenset("os sys gc builtins unittest pytest _pytest inspect ctypes importlib".split())
OWN_PROCESS: Final = frozenset("os.getpid os.getppid os.getpgid os.getpgrp".split())
SEARCH_PATHS: Final = frozenset("PATH PYTHONPATH LD_LIBRARY_PATH NODE_PATH".split())
GIT_COMMANDS: Final = frozenset(
    "log show cat-file rev-list reflog fsck diff-tree ls-tree show-ref for-each-ref unpack-objects verify-pack "
    "stash bundle".split()
)
# In a test file these are everyday business.
EVERYDAY: Final = frozenset(
    {
        Code.TEST_SKIPPED,
        Code.NETWORK,
        Code.TEST_SNIFFING,
        Code.TEST_FILES,
        Code.LOADED_CODE,
        Code.OUTPUT_PATCHED,
        Code.ALWAYS_EQUAL,
    }
)

TEST_PATH: Final = re.compile(r"(?!.*://)(?:(?:.*[/ =])?tests?/.*|(?:.*/)?(?:test_[\w*?]*|[\w*?]*_test)\.py)")
"""A text that names a test file, or files below a folder of tests."""
CODING: Final = re.compile(r"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
"""A source file's word on how it is to be decoded, on one of its first two lines."""
PLAIN_CODINGS: Final = frozenset("utf-8 utf8 utf-8-sig ascii us-ascii latin-1 latin1 iso-8859-1 iso-8859-15".split())
