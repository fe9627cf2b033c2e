"""How a JavaScript project's packages are installed: npm, pnpm or yarn, by its lock file, with its workspaces."""

import json
import re
from pathlib import PurePosixPath
from typing import Any, Final

from proctor.mining.languages.base import Project, SetupFailed, month_start

LOCKS: Final = ("package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "yarn.lock")
_CONFIGURATION: Final = (".npmrc", "pnpm-workspace.yaml", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs")
_NPM_OPTIONS: Final = "--no-audit --no-fund --legacy-peer-deps --ignore-scripts"
# Which pnpm reads a lock file of this version; the newest of them needs a newer Node than many machines have.
_PNPM_OF_LOCK: Final = {"5": ("7",), "6": ("8",), "9": ("10", "9")}
_YARN_1: Final = "1.22.22"
_YARN_NEWEST: Final = "4.9.2"
_WORKSPACE_DEPTH: Final = 4
# Packages of the workspace are links into it: they are made to point to where environments have it.
_LINK_WORKSPACES: Final = r"""
find node_modules -maxdepth 2 -type l | while read -r link; do
  target=$(readlink -f "$link") || continue
  case "$target" in "$PWD"/node_modules/*) ;; "$PWD"/*) ln -sfn "/workspace${target#"$PWD"}" "$link" ;; esac
done
"""


def read_package(project: Project) -> dict[str, Any]:
    """The `package.json` at the top of a project.

    Raises:
        SetupFailed: there is none, or it is broken.
    """
    data = project.read("package.json")
    if data is None:
        raise SetupFailed(
            "it has no package.json at its top; say how it is set up in [setup] commands", code="no-manifest"
        )
    try:
        document = json.loads(data)
    except ValueError as error:
        raise SetupFailed("its package.json is broken", code="no-manifest") from error
    return document if isinstance(document, dict) else {}


def manifests(project: Project) -> dict[str, bytes]:
    """The files that decide what is installed."""
    names = ["package.json", *LOCKS, *_CONFIGURATION]
    if _has_workspaces(project):
        names += [
            path
            for path in project.paths
            if PurePosixPath(path).name == "package.json"
            and 1 < len(PurePosixPath(path).parts) <= _WORKSPACE_DEPTH
            and "node_modules" not in path
        ]
    return project.manifests(names)


def lock_of(project: Project) -> str | None:
    """The lock file at the top of a project."""
    return next((name for name in LOCKS if name in project.paths), None)


def install_commands(project: Project) -> list[str]:
    """Shell commands that leave all packages in `node_modules`."""
    lock = lock_of(project)
    if lock == "pnpm-lock.yaml":
        commands = _pnpm(project)
    elif lock == "yarn.lock":
        commands = _yarn(project)
    elif lock is not None:
        # A lock file that does not fit its package.json is refused by `npm ci` alone.
        commands = [f"npm ci {_NPM_OPTIONS} || npm install {_NPM_OPTIONS}"]
    else:
        dates = dict.fromkeys((month_start(project.date), project.date))
        tries = [f"npm install --no-package-lock {_NPM_OPTIONS} --before={date}" for date in dates]
        commands = [" || ".join(tries)]
    return [*commands, "test -d node_modules || mkdir node_modules", _LINK_WORKSPACES.strip()]


def add_package(name: str) -> list[str]:
    """Shell commands that add a package to those that are installed.

    It is installed elsewhere and copied: npm would want to know where each of the others comes from.
    """
    return [
        f"npm install --prefix /tmp/added --no-audit --no-fund --ignore-scripts {name}",
        "cp -an /tmp/added/node_modules/. node_modules/",
    ]


def _has_workspaces(project: Project) -> bool:
    return "pnpm-workspace.yaml" in project.paths or bool(read_package(project).get("workspaces"))


def _manager_version(project: Project, name: str) -> str | None:
    found = re.match(rf"{name}@(\d+\.\d+\.\d+)", str(read_package(project).get("packageManager", "")))
    return found[1] if found else None


def _pnpm(project: Project) -> list[str]:
    found = re.search(r"^lockfileVersion:\s*['\"]?(\d+)", project.text("pnpm-lock.yaml"), re.MULTILINE)
    by_lock = _PNPM_OF_LOCK.get(found[1] if found else "9", ("10",))
    versions = dict.fromkeys(filter(None, (_manager_version(project, "pnpm"), *by_lock)))
    # One folder of packages without links between them: it is shown beside the workspace, not in it.
    options = "--frozen-lockfile --ignore-scripts --config.node-linker=hoisted --config.confirmModulesPurge=false"
    tries = [f"npx --yes pnpm@{version} install {options}" for version in versions]
    exports = "export npm_config_manage_package_manager_versions=false npm_config_package_manager_strict=false"
    # The scripts of such a project start it by its name.
    return [exports, " || ".join(tries), *add_package(f"pnpm@{by_lock[-1]}")]


def _yarn(project: Project) -> list[str]:
    if "__metadata:" not in project.text("yarn.lock"):
        options = "--frozen-lockfile --ignore-scripts --ignore-engines --non-interactive"
        return [f"npx --yes yarn@{_YARN_1} install {options}"]
    version = _manager_version(project, "yarn")
    if version is None:
        found = re.search(r"yarnPath:.*?yarn-(\d+\.\d+\.\d+)", project.text(".yarnrc.yml"))
        version = found[1] if found else _YARN_NEWEST
    variables = (
        "export YARN_NODE_LINKER=node-modules YARN_IGNORE_PATH=1 YARN_ENABLE_TELEMETRY=0 YARN_ENABLE_SCRIPTS=false"
        " YARN_ENABLE_GLOBAL_CACHE=false YARN_CACHE_FOLDER=/tmp/yarn-cache"
    )
    install = f"npx --yes --package=@yarnpkg/cli-dist@{version} yarn install"
    return [variables, f"{install} --immutable || YARN_ENABLE_IMMUTABLE_INSTALLS=false {install}"]
