"""What to put into `proctor-mine.toml`, from what a set-up or a test run printed: pure rules over texts."""

import re
from typing import Final

_IMAGE: Final = "or use --runner docker and name an image in [setup] image"
_BUILD: Final = 'if the tests need something built first, say so in [test], as in build = [["npm", "run", "build"]]'
# What is printed, and what to do about it; the groups of the first stand in the second.
_HINTS: Final = {
    r"No module named '(\w+)": 'add it to [setup], as in packages = ["{0}"]',
    r"fixture '(\w+)' not found": "name the plugin of pytest that has the fixture {0} in [setup] packages",
    r"pytest \S+ is too old": 'name a newer one in [setup], as in packages = ["pytest>=3.5"]',
    r"unrecognized arguments: (\S+)": "name the plugin of pytest that has the option {0} in [setup] packages",
    r"requires[- ]python|requires a different Python|does not satisfy Python": (
        'name a version of Python in [setup], as in python = "3.9"'
    ),
    r"fatal error: (\S+\.h): No such file": f"install what has {{0}} on this machine, {_IMAGE}",
    r"(\S+): (?:command )?not found|No such file or directory: '(?:gcc|cc|make)'": f"install that program, {_IMAGE}",
    r"EBADENGINE|Unsupported engine|Unsupported Node": (
        'name a version of Node in [setup], as in runtimes = {{node = "22"}}'
    ),
    r"go\.mod requires go >= ([\d.]+)": f"install Go {{0}}, {_IMAGE}",
    r"requires rustc ([\d.]+)": f"install Rust {{0}}, {_IMAGE}",
    r"requires Maven version ([\d.]+)": f"install Maven {{0}}, {_IMAGE}",
    r"release version \d+ not supported|Source option \d+ is no longer supported": (
        'name a version of Java in [setup], as in runtimes = {{java = "11"}}'
    ),
    r"ERR_MODULE_NOT_FOUND|Cannot find module|no report": _BUILD,
    r"Connection refused|ECONNREFUSED": "start what the tests connect to in [test] services",
    r"took longer than|timed? ?out": "raise [test] timeout_seconds",
}
_DEFAULT: Final = "say how it is set up in [setup] commands, or what to install in [setup] requirements"


def setup_hint(printed: str, *, default: str = _DEFAULT) -> str:
    """What to put into the settings, after what was printed."""
    for pattern, advice in _HINTS.items():
        found = re.search(pattern, printed, re.IGNORECASE | re.MULTILINE)
        if found is not None:
            return advice.format(*found.groups())
    return default
