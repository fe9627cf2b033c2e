"""The files of x07's suites as records: `x07.bench.suite@0.1.0` and `x07.bench.instance@0.1.0`.

They are those of our own suites, but for the test step, which is `x07 test`.
"""

import hashlib
import json
from typing import Annotated, Final, Literal

from msgspec import Meta

from proctor.benchmarks.suites.format import AtLeastOne, EvalLabels, InstanceFile, SuiteDefaults, SuiteFile
from proctor.core.predictions import RelPath

SUITE_SCHEMA: Final = "x07.bench.suite@0.1.0"
PREDICTION_SCHEMA: Final = "x07.bench.prediction@0.1.0"

World = Literal["solve-pure", "solve-fs", "solve-rr", "solve-kv", "solve-full", "run-os", "run-os-sandboxed"]


class X07SuiteDefaults(SuiteDefaults, frozen=True):
    """What holds for all instances of an x07 suite."""

    world: World | None = None


class X07SuiteFile(SuiteFile, frozen=True):
    """`suite.json` of an x07 suite."""

    schema_version: Literal["x07.bench.suite@0.1.0"]
    defaults: X07SuiteDefaults = X07SuiteDefaults()


class X07Eval(EvalLabels, frozen=True, kw_only=True, tag_field="kind", tag="x07test"):
    """Graded by `x07 test`."""

    manifest: RelPath
    module_root: tuple[RelPath, ...] = ()
    stdlib_lock: RelPath = "stdlib.lock"
    filter: Annotated[str, Meta(min_length=1, max_length=2048)] | None = None
    exact: bool = False
    repeat: AtLeastOne = 1
    jobs: AtLeastOne = 1
    keep_artifacts: bool = False
    artifact_dir: RelPath = "target/x07test"
    no_fail_fast: bool = False
    no_run: bool = False
    verbose: bool = False


class X07InstanceFile(InstanceFile, frozen=True):
    """`instance.json` of an instance that is graded by `x07 test`, in a suite of x07's or of ours."""

    schema_version: Literal["proctor.instance@1", "x07.bench.instance@0.1.0"]
    eval: X07Eval
    world: World = "solve-pure"


def suite_jcs_sha256(file: SuiteFile) -> str:
    """The digest that x07's reports give for a suite: of the decoded file, with defaults filled in, keys sorted."""
    defaults = file.defaults
    document = {
        "schema_version": file.schema_version,
        "suite_id": file.suite_id,
        "description": file.description,
        "instances": [
            {"id": ref.id, "path": ref.path, "enabled": ref.enabled, "note": ref.note or None} for ref in file.instances
        ],
        "defaults": {
            "world": defaults.world if isinstance(defaults, X07SuiteDefaults) else None,
            "repair_mode": defaults.repair_mode,
            "jobs": defaults.jobs,
            "keep_artifacts": defaults.keep_artifacts,
            "artifact_dir": defaults.artifact_dir,
            "determinism_runs": defaults.determinism_runs,
        },
    }
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()
