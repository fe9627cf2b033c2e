"""Python: versions resolved by uv as of the change's month, a virtual environment, pytest through our reporter."""

import ast
import configparser
import hashlib
import re
from pathlib import PurePosixPath
from typing import Any, Final

from proctor.benchmarks.python_envs import Interpreter, find_interpreters
from proctor.benchmarks.suites.format import SuiteEnvironmentFile, TestsEval
from proctor.core.errors import InfrastructureError, RetryableError
from proctor.core.user_files import parse_toml
from proctor.grading import pytest_config
from proctor.mining.languages.base import EnvironmentPlan, InstallFolder, Language, Project, SetupFailed, month_start
from proctor.mining.settings import MineSettings

PYTHON: Final = "/deps/venv/bin/python"
# The day from which a version could be used by projects: its release.
_RELEASES: Final = {
    "3.6": "2016-12-23",
    "3.7": "2018-06-27",
    "3.8": "2019-10-14",
    "3.9": "2020-10-05",
    "3.10": "2021-10-04",
    "3.11": "2022-10-24",
    "3.12": "2023-10-02",
    "3.13": "2024-10-07",
    "3.14": "2025-10-07",
}
_PACKAGING: Final = ("pyproject.toml", "setup.py", "setup.cfg")
_LOCKS: Final = ("uv.lock", "poetry.lock")
_REQUIREMENTS: Final = re.compile(
    r"^(?:(?:requirements|reqs?)/)?(?:requirements?[-_.])?(?:tests?|testing|dev|develop|development|ci)"
    r"(?:[-_.]requirements?)?\.(?:txt|in)$|^requirements\.(?:txt|in)$|^tests?/requirements\.(?:txt|in)$"
    r"|^tests?/requirements/py3\.txt$"
)
_TEST_EXTRAS: Final = re.compile(r"^(?:tests?|testing|dev|develop|development|all)$")
_TEST_GROUPS: Final = re.compile(r"^(?:tests?|testing|dev|develop|pytest)$")
# Options that are given to pytest in a project's settings, and the plugin that has them.
_PLUGINS: Final = {
    r"--cov": "pytest-cov",
    r"(?:^|[\s\"'=])(?:-n|--numprocesses|--dist)\b": "pytest-xdist",
    r"--timeout|^timeout\s*=": "pytest-timeout",
    r"asyncio_mode|asyncio_default|--asyncio": "pytest-asyncio",
    r"--benchmark": "pytest-benchmark",
    r"--flake8": "pytest-flake8",
    r"--mypy": "pytest-mypy",
    r"--randomly|-p randomly": "pytest-randomly",
    r"DJANGO_SETTINGS_MODULE": "pytest-django",
    r"mocked-sessions|trio_mode": "pytest-trio",
    r"anyio_mode": "anyio",
}
_REQUIREMENT: Final = re.compile(r"\s*[A-Za-z][\w.-]*(?:\[[\w,]+\])?\s*(?:[<>=!~]=?[\w.,<>=! *]*)?")
_XDIST: Final = re.compile(r"(?:^|[\s\"'=])(?:-n|--numprocesses)\b", re.MULTILINE)
_SCM: Final = re.compile(r"setuptools[-_]scm|hatch-vcs|versioneer|pbr|poetry-dynamic-versioning|versioningit|flit_scm")
_TAGS: Final = re.compile(rb"^tag_(?:build|date|svn_revision)[ \t]*=.*\n", re.MULTILINE)
_COMPILES: Final = re.compile(
    r"ext_modules|\bExtension\(|cython|cffi_modules|maturin|setuptools[-_]rust|mesonpy|scikit[-_]build", re.IGNORECASE
)
_COMPILED: Final = (".pyx", ".pxd", ".c", ".cc", ".cpp", ".h", ".hpp", ".rs", ".f90")
# What a project's installation leaves in its tree, and its tests need: version files, extension modules, metadata.
_INSTALL: Final = r"""
cp -r /environment/files/. . 2>/dev/null || true
"$PYTHON" -m venv --without-pip /deps/venv 2>/dev/null || "$PYTHON" -m venv /deps/venv
uv pip install --quiet --no-deps@BUILDS@ --python /deps/venv/bin/python -r /environment/requirements.txt
sleep 0.02; touch /tmp/before; sleep 0.02
install_project() { uv pip install --quiet --no-deps --python /deps/venv/bin/python "$@" --editable .; }
if [ -e pyproject.toml ] || [ -e setup.py ]; then
  install_project --exclude-newer @DATE@ || install_project --exclude-newer @LATER@ || install_project \
    || echo "proctor: the project itself is not installed; it is imported from its tree"
fi
site=$(/deps/venv/bin/python -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
printf '/workspace\n' > "$site/workspace.pth"
[ -d src ] && printf '/workspace/src\n' >> "$site/workspace.pth"
mkdir -p /deps/tree
find . -newer /tmp/before -type f \( -name '*.py' -o -name '*.so' -o -path '*.egg-info/*' \) \
  -not -path './build/*' -not -path '*/__pycache__/*' -print0 | xargs -0 -r cp --parents -t /deps/tree
rmdir /deps/tree 2>/dev/null || true
"""

_MORE: Final = "/environment/more.in"
_LEAST: Final = "/environment/least.in"
# The reporter needs what pytest has since 3.5: changes from before it run with it, in place of what they name.
_FIRST_PYTEST: Final = "2018-06-01"
_PYTESTS: Final = ("pytest>=3.5,<4", "py>=1.5", "pytest-cov>=2.5")
_OF_PYTEST: Final = ("pytest", "py", "pytest-cov", "pluggy", "attrs", "six", "more-itertools", "atomicwrites")
# The last setuptools that builds what the first Python 3 had to translate; and a wheel that needs no package which is
# built with it, as its first versions did: uv would wait for itself.
_BUILDS: Final = {"setuptools": "2021-08-01", "wheel": _FIRST_PYTEST}
# Where nothing of the time fits, as for a branch that is older than its last commit.
_RESOLVED_LATER: Final = "2100-01-01"
_RESOLVE: Final = """
[ -e uv.lock ] && uv export --frozen --quiet --no-emit-project --no-hashes --no-header --no-annotate --all-groups \\
  > /tmp/lock.txt 2>/dev/null || true
resolve() {
  date=$1; shift
  uv pip compile --quiet --no-header --no-annotate --python "$PYTHON" --exclude-newer "$date" "$@" \\
    > /tmp/pins.txt 2> /tmp/errors.txt && echo "$date" > /deps/date.txt && return
  cat /tmp/errors.txt >&2
  return 1
}
# Packages that were uploaded anew later have no version of that time, as the last attempt has said: a later one is
# taken of these alone.
resolve_reuploaded() {
  date=$1; shift
  later=
  for _ in 1 2 3 4 5; do
    sed -n 's/.*hint: `\\([A-Za-z0-9._-]*\\)` was filtered by `exclude-newer`.*/\\1/p' /tmp/errors.txt > /tmp/names.txt
    more=
    for name in $(sort -u /tmp/names.txt); do
      case "$later " in *" $name="*) ;; *) more="$more --exclude-newer-package $name=@LATER@" ;; esac
    done
    [ -n "$more" ] || return 1
    later="$later$more"
    resolve "$date" $later "$@" && return
  done
  return 1
}
"""


class PythonLanguage(Language):
    """Python."""

    name = "python"

    async def plan_environment(
        self, project: Project, settings: MineSettings, install: InstallFolder
    ) -> EnvironmentPlan:
        """The packages as of the change's month, or of its day where that month's first day has none that fit."""
        version = settings.setup.python or choose_python(project, find_interpreters())
        try:
            folder = await install(_resolution(project, settings, version))
        except RetryableError:
            raise
        except InfrastructureError as error:
            reason = (
                f"the versions of its packages cannot be resolved ({error.sentence}); name them in [setup] requirements"
            )
            raise SetupFailed(reason, code="resolve") from error
        date = (folder / "date.txt").read_text().strip()
        return _environment(project, settings, version, date, (folder / "requirements.txt").read_bytes())

    def plan_tests(self, project: Project, settings: MineSettings) -> TestsEval:
        """The changed test modules, with the project's own configuration of pytest."""
        config = pytest_config(project.read)
        modules = [path for path in project.tests if is_test_module(path, config.text if config else "")]
        if settings.test.scope == "all":
            modules = sorted({PurePosixPath(path).parts[0] for path in modules})
        if not modules:
            raise SetupFailed("changes no test module that pytest would collect", code="no-test-module")
        text = config.text if config else ""
        options = ["-n", "0"] if _XDIST.search(text) else []
        return TestsEval(
            format="pytest",
            arguments=tuple(modules),
            python=PYTHON,
            paths=(".", "src") if any(path.startswith("src/") for path in project.paths) else (".",),
            config_path=config.name if config else None,
            autoload=True,
            options=(*options, *settings.test.options),
        )


def is_test_module(path: str, config: str = "") -> bool:
    """Whether pytest collects this file, by its name or by the project's `python_files`."""
    name = PurePosixPath(path).name
    if not name.endswith(".py") or name in {"conftest.py", "__init__.py"}:
        return False
    patterns = re.search(r"python_files[\"']?\s*=\s*(.+)", config)
    words = re.findall(r"[\w*?.\[\]-]+\.py", patterns[1]) if patterns else []
    return any(PurePosixPath(name).match(word) for word in (*words, "test_*.py", "*_test.py", "tests.py", "test.py"))


def choose_python(project: Project, available: tuple[Interpreter, ...]) -> str:
    """The newest Python that the project names, or that had been out for some months, of those on this machine.

    Raises:
        SetupFailed: none of them fits.
    """
    text = "\n".join(project.text(name) for name in _PACKAGING)
    required = re.search(r"(?:requires-python|python_requires)\s*=\s*[\"']?([^\"'\n#]+)", text)
    poetry = re.search(r"^python\s*=\s*[\"']([^\"']+)", text, re.MULTILINE)
    bounds = required[1] if required else poetry[1] if poetry else ""
    named = set(re.findall(r"Programming Language :: Python :: (3\.\d+)", text))
    fit = [one.version for one in available if _allows(bounds, one.version)]
    released = [version for version in fit if _RELEASES.get(version, "9999") <= project.date]
    # Of a time before all of them, the oldest is the nearest.
    known = [version for version in released if version in named] or released or sorted(fit, key=_numbers)[:1]
    if not known:
        raise SetupFailed(
            f"it needs Python {bounds.strip()}, and this machine has {', '.join(one.version for one in available)}; "
            "install it, or name another in [setup] python",
            code="python",
        )
    best = max(known, key=_numbers)
    # One that came out a few weeks ago has few packages yet.
    older = [version for version in known if _RELEASES.get(version, "") <= _four_months_before(project.date)]
    return max(older, key=_numbers) if older and not (named and best in named) else best


def _allows(bounds: str, version: str) -> bool:
    """Whether a version fits bounds as in ``>=3.8,<4`` or ``^3.9``; what cannot be read fits."""
    mine = _numbers(version)
    for sign, wanted in re.findall(r"(>=|<=|==|!=|~=|\^|<|>)\s*([\d.]+)", bounds):
        other = _numbers(wanted)[:2]
        at = mine[: len(other)]
        lower = sign in {">=", "^", "~=", ">"} and mine < other
        upper = (sign == "<" and at >= other and not (len(_numbers(wanted)) > len(other))) or (
            sign == "<=" and at > other
        )
        if lower or upper or (sign == "==" and at != other) or (sign == "!=" and at == other):
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def _four_months_before(day: str) -> str:
    year, month = int(day[:4]), int(day[5:7]) - 4
    return f"{year - (month <= 0):04d}-{month + 12 * (month <= 0):02d}-{day[8:10]}"


def _resolution(project: Project, settings: MineSettings, version: str) -> EnvironmentPlan:
    """An environment whose only content is the list of packages with their versions, and the day that they are of.

    Everything that the project names for its tests is tried first, as of two days; then less and less of it.
    """
    own = settings.setup.requirements
    found = sorted(path for path in project.paths if _REQUIREMENTS.match(path))
    for_tests = [path for path in found if "test" in path]
    found = [path for path in found if path in for_tests or not for_tests or path.startswith("requirements.")]
    needed = [path for path in project.paths if path.endswith((".txt", ".in")) and "requirement" in path.lower()]
    manifests = _untagged(project.manifests((*_PACKAGING, *_LOCKS, "tox.ini", "README.md", "README.rst", *needed)))
    least = [*settings.setup.packages, *_plugins(project), "pytest"]
    inputs = [path for path in own if path in project.paths] if own else found
    extras = re.findall(r"\[([\w,-]+)\]", " ".join(own)) if own else _test_extras(project)
    packaged = [name for name in ("pyproject.toml", "setup.py", "setup.cfg") if name in manifests][:1]
    if packaged == ["pyproject.toml"] and "[project]" not in project.text("pyproject.toml"):
        packaged = [name for name in ("setup.py", "setup.cfg", "pyproject.toml") if name in manifests][:1]
    flags = "".join(f" --extra {name}" for name in sorted({one for text in extras for one in text.split(",")}))
    flags += "".join(f" --group {name}" for name in _groups(project))
    base, whole = " ".join(packaged), " ".join([*packaged, *inputs])
    levels = [f"{whole} {_MORE}{flags}", f"{whole} {_LEAST}{flags}", f"{whole} {_LEAST}"]
    levels += [f"{base} {_MORE}{flags}", f"{base} {_MORE}", f"{base} {_LEAST}"]
    if "uv.lock" in manifests and not own:
        levels.insert(0, f"/tmp/lock.txt {_MORE}")  # noqa: S108 - inside an environment
    if "poetry.lock" in manifests and not own:
        levels.insert(0, f"{whole} {_MORE}{flags} --constraint /environment/poetry.txt")
    if project.date < _FIRST_PYTEST:
        newer = _newer({**dict.fromkeys(_OF_PYTEST, _FIRST_PYTEST), **_BUILDS})
        levels = [f"{level} --override /environment/pytest.in{newer}" for level in levels]
    dates = dict.fromkeys((month_start(project.date), project.date))
    attempts = []
    for level in dict.fromkeys(levels):
        attempts += [f"resolve {date} {level}" for date in dates]
        attempts.append(f"resolve_reuploaded {project.date} {level}")
    attempts.append(f"resolve {_RESOLVED_LATER} {base} {_LEAST}")
    name = _project_name(project)
    drop = f" | grep -ivE '^{re.escape(name)}(==| @|\\[)'" if name else ""
    script = "\n".join(
        (
            "cp -r /environment/files/. . 2>/dev/null || true",
            *_version_exports(project),
            _RESOLVE.strip().replace("@LATER@", _RESOLVED_LATER),
            " \\\n  || ".join(attempts),
            f"(grep -vE '^(-e |--|#|\\.|file:)' /tmp/pins.txt{drop} || true) | sort > /deps/requirements.txt",
        )
    )
    files = {f"files/{path}": data for path, data in manifests.items()}
    files["more.in"] = _lines([*least, *_declared(project)])
    files["least.in"] = _lines(least)
    if project.date < _FIRST_PYTEST:
        files["pytest.in"] = _lines([*_PYTESTS])
    if "poetry.lock" in manifests:
        files["poetry.txt"] = _poetry_pins(project.text("poetry.lock")).encode()
    return EnvironmentPlan(
        file=SuiteEnvironmentFile(
            schema_version="proctor.suite_environment@1",
            install=script,
            runtimes={"python": version},
            image=_image(settings, version),
        ),
        files=files,
    )


def _newer(dates: dict[str, str]) -> str:
    """Options of uv: packages of other days than the rest."""
    return "".join(f" --exclude-newer-package {name}={date}" for name, date in dates.items())


def _untagged(manifests: dict[str, bytes]) -> dict[str, bytes]:
    """The manifests without what puts the day of a build into the version: old setuptools does so twice, which is no
    version any more.
    """
    return {name: _TAGS.sub(b"", data) if name == "setup.cfg" else data for name, data in manifests.items()}


def _lines(requirements: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in dict.fromkeys(requirements)).encode()


def _environment(project: Project, settings: MineSettings, version: str, date: str, pins: bytes) -> EnvironmentPlan:
    """The virtual environment with these packages, and the project itself as a link to its tree."""
    exports = "\n".join(_version_exports(project))
    # Builds that can install a link came later than most of old Python's time.
    builds = _newer(_BUILDS) if project.date < _FIRST_PYTEST else ""
    install = _INSTALL.replace("@BUILDS@", builds).replace("@DATE@", date).replace("@LATER@", max(date, "2023-06-01"))
    script = f"{exports}{install}"
    return EnvironmentPlan(
        file=SuiteEnvironmentFile(
            schema_version="proctor.suite_environment@1",
            install=script.strip(),
            runtimes={"python": version},
            variables={"PATH": "/deps/venv/bin", "VIRTUAL_ENV": "/deps/venv", **settings.setup.variables},
            image=_image(settings, version),
            date=date,
        ),
        files={
            "requirements.txt": pins,
            **{f"files/{path}": data for path, data in _untagged(project.manifests(_PACKAGING)).items()},
            **_compiled_sources(project),
        },
    )


def _compiled_sources(project: Project) -> dict[str, bytes]:
    """A file that identifies the sources of extension modules: what is compiled from others is another environment."""
    if not _COMPILES.search("\n".join(project.text(name) for name in _PACKAGING)):
        return {}
    digest = hashlib.sha256()
    for path in project.paths:
        data = project.read(path) if path.endswith(_COMPILED) else None
        if data is not None:
            digest.update(b"%s\0%d\0%s" % (path.encode("utf-8", "surrogateescape"), len(data), data))
    return {"compiled-sources.txt": f"{digest.hexdigest()}\n".encode()}


def _image(settings: MineSettings, version: str) -> str:
    return settings.setup.image or f"python:{version}-bookworm"


def _version_exports(project: Project) -> tuple[str, ...]:
    """The version for projects whose build asks git for it: their trees are built without history."""
    text = "\n".join(project.text(name) for name in _PACKAGING)
    if not _SCM.search(text):
        return ()
    version = project.version or "0.1.0"
    names = ("SETUPTOOLS_SCM_PRETEND_VERSION", "PBR_VERSION", "POETRY_DYNAMIC_VERSIONING_BYPASS")
    return tuple(f"export {name}={version}" for name in names)


def _plugins(project: Project) -> list[str]:
    """Plugins of pytest that the project's settings presuppose."""
    config = pytest_config(project.read)
    text = config.text if config else ""
    return [name for pattern, name in _PLUGINS.items() if re.search(pattern, text, re.MULTILINE)]


def _declared(project: Project) -> list[str]:
    """Packages for tests that stand where no resolver looks: `tests_require` of setup files, `deps` of tox."""
    found: list[str] = []
    try:
        tree = ast.parse(project.text("setup.py"))
    except (SyntaxError, ValueError):
        tree = ast.Module(body=[], type_ignores=[])
    lists = {
        target.id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "tests_require":
            value = lists.get(node.value.id, node.value) if isinstance(node.value, ast.Name) else node.value
            found += [
                one.value for one in ast.walk(value) if isinstance(one, ast.Constant) and isinstance(one.value, str)
            ]
    tox = configparser.RawConfigParser(strict=False)
    try:
        tox.read_string(project.text("tox.ini"))
    except configparser.Error:
        return found
    deps = tox.get("testenv", "deps", fallback="")
    return [
        *found,
        *_poetry_names(project),
        *(line.strip() for line in deps.splitlines() if _REQUIREMENT.fullmatch(line)),
    ]


def _poetry_names(project: Project) -> list[str]:
    """The packages of poetry's groups for development; their versions are in its lock."""
    poetry = _pyproject(project).get("tool", {}).get("poetry", {})
    groups = [poetry.get("dev-dependencies", {})]
    groups += [
        group.get("dependencies", {}) for name, group in poetry.get("group", {}).items() if _TEST_GROUPS.match(name)
    ]
    return [name for group in groups for name in group if name != "python"]


def _test_extras(project: Project) -> list[str]:
    document = _pyproject(project)
    extras = list(document.get("project", {}).get("optional-dependencies", {}))
    text = project.text("setup.cfg") + project.text("setup.py")
    extras += (
        re.findall(r"(?:^|[\"'])(tests?|testing|dev)[\"']?\s*[:=]", text, re.MULTILINE)
        if "extras_require" in text
        else []
    )
    return sorted(
        {name for name in extras if _TEST_EXTRAS.match(name)}
        - ({"all"} if any(e != "all" for e in extras if _TEST_EXTRAS.match(e)) else set())
    )


def _groups(project: Project) -> list[str]:
    groups = _pyproject(project).get("dependency-groups", {})
    named = [name for name in groups if _TEST_GROUPS.match(name)]
    return [name for name in named if name != "dev"] or named


def _pyproject(project: Project) -> dict[str, Any]:
    try:
        return parse_toml(project.text("pyproject.toml"))
    except ValueError:
        return {}


def _project_name(project: Project) -> str:
    """The project's name, with its separators as a pattern: it is installed from its tree, never from an index."""
    document = _pyproject(project)
    name = document.get("project", {}).get("name") or document.get("tool", {}).get("poetry", {}).get("name")
    if not isinstance(name, str):
        found = re.search(
            r"^\s*name\s*=\s*[\"']?([\w.-]+)", project.text("setup.cfg") or "", re.MULTILINE
        ) or re.search(r"\bname\s*=\s*[\"']([\w.-]+)", project.text("setup.py"))
        name = found[1] if found else ""
    return re.sub(r"[-_.]+", "-", name).lower()


def _poetry_pins(text: str) -> str:
    try:
        packages = parse_toml(text).get("package", [])
    except ValueError:
        return ""
    return "".join(
        f"{package.get('name')}=={package.get('version')}\n"
        for package in packages
        if isinstance(package, dict) and "source" not in package
    )
