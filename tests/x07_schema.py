"""The form of x07's reports (`x07.bench.report@0.1.0`) as a JSON Schema, written from what is known of it."""

from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
COUNT: Schema = {"type": "integer", "minimum": 0}
AMOUNT: Schema = {"type": "number", "minimum": 0}
RUNNER: Schema = {"type": "string", "enum": ["local", "docker"]}
REPAIR_MODE: Schema = {"type": "string", "enum": ["off", "memory", "write"]}
SHA256: Schema = {"type": "string", "pattern": "^[0-9a-f]{64}$"}


def closed(optional: dict[str, Schema] | None = None, **required: Schema) -> Schema:
    """An object with these fields and no others."""
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(required),
        "properties": {**required, **(optional or {})},
    }


def text(shortest: int, longest: int | None = None) -> Schema:
    return {"type": "string", "minLength": shortest, **({} if longest is None else {"maxLength": longest})}


def null_or(kind: str, **limits: int) -> Schema:
    return {"type": [kind, "null"], **limits}


def null_or_any(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


TESTS = closed(
    ok=FLAG,
    exit_code=null_or("integer"),
    report_path=null_or("string"),
    **dict.fromkeys(
        ("passed", "failed", "skipped", "errors", "duration_ms", "compile_failures", "run_failures"), COUNT
    ),
)
REPAIR = closed(mode=REPAIR_MODE, iterations=COUNT, applied_ops_count=COUNT, last_lint_ok=FLAG)
INSTANCE = closed(
    {
        "after_patch": null_or_any(TESTS),
        "repair": null_or_any(REPAIR),
        "artifacts_dir": null_or("string"),
        "patch_kind": null_or("string", maxLength=64),
        "patch_sha256_hex": null_or_any(SHA256),
        "model_name_or_path": null_or("string", maxLength=256),
        "error": null_or("string", maxLength=8192),
        "notes": {"type": "array", "items": {"type": "string", "maxLength": 4096}},
    },
    instance_id=text(1, 128),
    status={"type": "string", "enum": ["resolved", "unresolved", "error", "skipped"]},
    baseline=TESTS,
)
INVOCATION = closed(
    {
        "predictions_path": null_or("string"),
        "oracle": FLAG,
        "runner": RUNNER,
        "filter": null_or("string"),
        "exact": FLAG,
        "limit": null_or("integer", minimum=0),
    },
    argv={"type": "array", "items": TEXT},
    cwd=TEXT,
    started_at_unix_ms=COUNT,
    suite_path=TEXT,
    repair_mode=REPAIR_MODE,
    jobs={"type": "integer", "minimum": 1},
    keep_artifacts=FLAG,
    artifact_dir=TEXT,
)
SUMMARY = closed(
    {"avg_repair_iterations": AMOUNT, "avg_repair_applied_ops": AMOUNT},
    **dict.fromkeys(("instances_total", "resolved", "unresolved", "errors", "skipped", "duration_ms"), COUNT),
)
X07_REPORT = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    **closed(
        schema_version={"const": "x07.bench.report@0.1.0"},
        tool=closed({"build": null_or("string")}, name={"type": "string", "const": "x07"}, version=TEXT),
        invocation=INVOCATION,
        suite=closed({"suite_jcs_sha256_hex": null_or_any(SHA256)}, suite_id=text(1, 128), suite_path=text(1)),
        env=closed({"cc": null_or("string"), "docker_image": null_or("string")}, runner=RUNNER, platform=text(1, 256)),
        summary=SUMMARY,
        instances={"type": "array", "items": INSTANCE},
    ),
}
