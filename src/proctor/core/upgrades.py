"""How stored records of older versions are read.

Every stored record says its `schema_version`. When fields of a record are renamed, the record gets the next version,
and this table says how the older one becomes it. `core.record.from_json` applies it when a document is older than the
type that it is read as. Version 0 is that of documents without a `schema_version`.

A type that reads only some fields of a stored record states the `schema_version`, too: without it, a renamed field that
has a default would be lost silently.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple


class Upgrade(NamedTuple):
    """From one version of a record to the next.

    Attributes:
        to: the newer `schema_version`.
        renames: new names of fields by their paths, applied in this order. A path is dotted and goes through lists.
            Records with a `schema_version` of their own have their own upgrade.
        values: new values of text fields, by path (in new names) and old value.
        moves: new names, in the record itself, of fields of its parts, by their paths; the parts are dropped.
        adds: fields that say of an older record what the default of the newer one would not.
    """

    to: str
    renames: Mapping[str, str] = {}
    values: Mapping[str, Mapping[str, str]] = {}
    moves: Mapping[str, str] = {}
    adds: Mapping[str, Any] = {}


_QUARANTINE: Final = {
    "settled.folder": "grader_dir",
    "settled.path": "search_path",
    "settled.fakes": "fake_programs",
    "settled.ended": "killed",
    "settled.kept": "services",
    "settled": "quarantine_result",
}

UPGRADES: Final[Mapping[str, Upgrade]] = {
    "proctor.agent_outcome@0": Upgrade("proctor.agent_outcome@1", {"metrics.utilisation": "active_share"}),
    "proctor.anchor@1": Upgrade(
        "proctor.environment_snapshot@1",
        {"at": "taken_at", "started": "init_start_time", "programs.real": "real_path"},
    ),
    "proctor.answer@1": Upgrade("proctor.attempt@1", {"metrics.utilisation": "active_share"}),
    "proctor.fetched@1": Upgrade("proctor.dataset_info@1"),
    "proctor.graded@1": Upgrade(
        "proctor.graded@2",
        {
            "evaluated.baseline": "pre_patch",
            "evaluated.after_patch": "post_patch",
            "evaluated": "evaluation",
            "retried": "earlier_errors",
        },
    ),
    "proctor.health@1": Upgrade("proctor.task_health@1", {"baseline_ok": "pre_patch_ok"}),
    "proctor.journal_entry@1": Upgrade("proctor.journal_entry@2", {"sample": "trial"}),
    "proctor.re_bench_evidence@0": Upgrade("proctor.re_bench_evidence@1", {"at_end": "scored_at_end"}),
    "proctor.report@1": Upgrade("proctor.report@2", {"tasks.baseline": "pre_patch", "tasks.after_patch": "post_patch"}),
    "proctor.run_config@1": Upgrade(
        "proctor.run_config@2",
        {"samples": "trials", "excluded": "exclude"},
        moves={
            "budget.run_usd": "max_cost",
            "budget.task_usd": "max_cost_per_task",
            "limits.wall_seconds": "timeout",
            "briefing.system_prompt": "system_prompt",
            "briefing.append_system_prompt": "append_system_prompt",
            "briefing.allowed_tools": "allowed_tools",
            "briefing.env": "agent_env",
        },
    ),
    "proctor.run_config@2": Upgrade("proctor.run_config@3", adds={"controls": 0, "web": True}),
    "proctor.run_summary@1": Upgrade("proctor.run_summary@2", {"answer_seconds": "agent_seconds"}),
    "proctor.setupbench_evidence@1": Upgrade(
        "proctor.setupbench_evidence@2", {"ran": "official_run", "strict": "strict_run", **_QUARANTINE}
    ),
    "proctor.sweep@1": Upgrade("proctor.sweep@2", {"baseline": "reference"}),
    "proctor.task@1": Upgrade("proctor.task@2", {"private.gold": "oracle"}),
    "proctor.task_result@1": Upgrade(
        "proctor.task_result@2",
        {"sample": "trial", "answer_seconds": "agent_seconds", "metrics.utilisation": "active_share"},
    ),
    "proctor.terminal_bench_evidence@1": Upgrade(
        "proctor.terminal_bench_evidence@2", {"ran": "verifier_run", "tries": "verifier_runs", **_QUARANTINE}
    ),
    "proctor.terminal_bench_evidence@2": Upgrade("proctor.harbor_evidence@1"),
    "proctor.timeline@1": Upgrade(
        "proctor.timeline@2",
        {
            "lines.spans.doing": "activity",
            "lines.last_words": "final_text",
            "lines": "agents",
            "began": "started_at",
        },
        {
            "agents.spans.activity": {
                "asking for a permission": "awaiting_permission",
                "waiting for a person": "awaiting_user",
                "limited": "rate_limited",
                "refused": "auth_error",
                "failing": "provider_error",
                "out of its session": "exited",
            }
        },
    ),
    "proctor.trajectory@1": Upgrade(
        "proctor.trajectory@2", {"steps.observed": "observation"}, {"steps.kind": {"trouble": "error"}}
    ),
}

_OLDER: Final = re.compile(
    rb'"schema_version"\s*:\s*"(?:' + b"|".join(re.escape(version.encode()) for version in UPGRADES) + rb')"'
)


def holds_older_record(data: bytes) -> bool:
    """Whether a JSON document is, or contains, a record of an older version."""
    return _OLDER.search(data) is not None


def upgrade(value: Any) -> None:
    """Bring a decoded document, and every record in it, to the current versions, in place."""
    if isinstance(value, list):
        for item in value:
            upgrade(item)
    elif isinstance(value, dict):
        while (step := _next_step(value)) is not None:
            for path, name in step.renames.items():
                _rename(value, path.split("."), name)
            for path, changes in step.values.items():
                _change(value, path.split("."), changes)
            _move(value, step.moves)
            for name, addition in step.adds.items():
                value.setdefault(name, addition)
            value["schema_version"] = step.to
        for item in value.values():
            upgrade(item)


def _next_step(record: dict[str, Any]) -> Upgrade | None:
    version = record.get("schema_version")
    return UPGRADES.get(version) if isinstance(version, str) else None


def _rename(value: Any, path: Sequence[str], name: str) -> None:
    for record in _records(value, path[:-1]):
        if path[-1] in record:
            record[name] = record.pop(path[-1])


def _change(value: Any, path: Sequence[str], changes: Mapping[str, str]) -> None:
    for record in _records(value, path[:-1]):
        found = record.get(path[-1])
        if isinstance(found, str):
            record[path[-1]] = changes.get(found, found)


def _move(record: dict[str, Any], moves: Mapping[str, str]) -> None:
    for path, name in moves.items():
        part, field = path.split(".")
        if isinstance(record.get(part), dict) and field in record[part]:
            record[name] = record[part][field]
    for part in {path.split(".")[0] for path in moves}:
        record.pop(part, None)


def _records(value: Any, path: Sequence[str]) -> list[dict[str, Any]]:
    """The objects at a path; a list on the way stands for all of its items."""
    if isinstance(value, list):
        return [record for item in value for record in _records(item, path)]
    if not isinstance(value, dict):
        return []
    return _records(value.get(path[0]), path[1:]) if path else [value]
