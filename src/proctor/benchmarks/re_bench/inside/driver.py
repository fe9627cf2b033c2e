"""Runs one operation of a task family (METR Task Standard) in an environment and returns its result.

The job comes on standard input. What the family prints goes to standard error; the result goes to the real standard
output, between two lines with a word that only we know, so that nothing that is printed can be taken for it.
"""

import ctypes
import importlib
import importlib.abc
import importlib.machinery
import json
import os
import sys

MYPY = False
if MYPY:
    from typing import Any

PR_SET_DUMPABLE = 4


class StubImporter(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Stands in for modules that are not installed: reading what a family says of itself needs none of them."""

    def find_spec(self, name: "str", *_: "Any") -> "Any":
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: "Any") -> "Any":
        return StubModule(spec.name)

    def exec_module(self, module: "Any") -> "None":
        module.__path__ = []


class StubModule(type(sys)):  # type: ignore[misc]  # a module whose every attribute is there
    def __getattr__(self, name: "str") -> "Any":
        if name.startswith("__"):
            raise AttributeError(name)
        return StubModule(name)

    def __call__(self, *_: "Any", **__: "Any") -> "Any":
        return self


def load_family(job: "dict[str, Any]") -> "Any":
    sys.path.insert(0, job["folder"])
    return importlib.import_module(job["family"]).TaskFamily


def describe(family: "Any") -> "dict[str, Any]":
    """What a family says of its tasks."""
    variables = list(getattr(family, "required_environment_variables", ()))
    tasks, aux_vm = {}, False
    for name, task in family.get_tasks().items():
        aux_vm = aux_vm or (hasattr(family, "get_aux_vm_spec") and family.get_aux_vm_spec(task) is not None)
        permissions = family.get_permissions(task) if hasattr(family, "get_permissions") else []
        tasks[name] = {"instructions": family.get_instructions(task), "permissions": list(permissions)}
    return {
        "tasks": tasks,
        "variables": variables,
        "intermediate": hasattr(family, "intermediate_score"),
        "aux_vm": aux_vm,
        "version": str(getattr(family, "standard_version", "")),
    }


def run_operation(job: "dict[str, Any]") -> "Any":
    operation = job["operation"]
    if operation == "describe":
        sys.meta_path.append(StubImporter())
        return describe(load_family(job))
    family = load_family(job)
    if operation == "install":
        return family.install() if hasattr(family, "install") else None
    task = family.get_tasks()[job["task"]]
    if operation == "start":
        return family.start(task) if hasattr(family, "start") else None
    if operation == "intermediate_score":
        return family.intermediate_score(task)
    if operation == "score":
        return {"score": family.score(task, job["submission"]), "message": {}, "details": {}}
    raise ValueError(operation)


def main() -> "None":
    job = json.loads(sys.stdin.buffer.read())
    # What a scorer runs of the agent's may be the same user: it must not read this process, or write to it.
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    output = os.dup(1)
    os.set_inheritable(output, False)
    os.dup2(2, 1)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.chdir(job["folder"])
    said = json.dumps(run_operation(job), default=str)
    data = ("\n%s\n%s\n%s\n" % (job["word"], said, job["word"])).encode()
    while data:
        data = data[os.write(output, data) :]


main()
