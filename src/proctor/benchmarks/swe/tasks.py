"""From rows to tasks: what the agent is shown, what it never sees, and what reports break results down by."""

import hashlib
from typing import TypeVar

import msgspec

from proctor.benchmarks.swe.patches import protected_patterns, sizes
from proctor.benchmarks.swe.procedure import Procedure
from proctor.benchmarks.swe.rows import EvoRow, FeatureRow, ProRow, Row, SweBenchRow
from proctor.core.submission import PatchKind
from proctor.core.task import Gold, ImageSource, PrivatePart, PublicPart, Task

R = TypeVar("R", bound=Row)


def task_of(benchmark: str, row: R, procedure: Procedure[R]) -> Task:
    """One row as a task."""
    start = procedure.start(row)
    gold = procedure.gold(row)
    return Task(
        id=row.instance_id,
        benchmark=benchmark,
        public=PublicPart(
            instruction=procedure.instruction(row),
            source=ImageSource(image=row.image, workdir=start.workdir),
            alias=_alias(row),
        ),
        private=PrivatePart(
            gold=None
            if gold is None
            else Gold(text=gold.decode("utf-8", "surrogateescape"), patch_kind=PatchKind.UNIFIED_DIFF),
            fail_to_pass=row.fail_to_pass,
            pass_to_pass=row.pass_to_pass,
            protected=protected_patterns(row, gold or b""),
        ),
        categories=_categories(row, gold),
    )


def fingerprint(row: Row) -> str:
    """Identifies all of a row."""
    return hashlib.sha256(msgspec.json.encode(row)).hexdigest()


def _alias(row: Row) -> str | None:
    """Pro's ids hold the commit of the reference answer, so that an agent is told another name."""
    if isinstance(row, ProRow):
        return f"{row.repo.replace('/', '__')}-{hashlib.sha256(row.instance_id.encode()).hexdigest()[:12]}"
    return None


def _categories(row: Row, gold: bytes | None) -> dict[str, str]:
    found = {"repository": row.repo, "language": "python"}
    match row:
        case SweBenchRow():
            found |= {"difficulty": row.difficulty, "language": _language(row.log_parser)}
        case ProRow():
            found |= {"language": {"js": "javascript", "ts": "typescript"}.get(row.repo_language, row.repo_language)}
        case EvoRow():
            found |= {"origin": row.bench}
        case FeatureRow():
            found |= {"level": str(row.level)}
    if gold is not None:
        found |= sizes(gold.decode("utf-8", "surrogateescape"))
    return {name: value for name, value in found.items() if value}


def _language(log_parser: str) -> str:
    parser = log_parser.removeprefix("parse_log_")
    by_parser = {
        "c": ("redis", "jq", "micropython_test"),
        "c++": ("doctest", "googletest"),
        "go": ("gotest",),
        "java": ("maven", "ant", "gradle_custom"),
        "javascript": ("jest", "jest_json", "vitest", "karma", "tap", "immutable_js"),
        "php": ("phpunit",),
        "ruby": ("minitest", "cucumber", "ruby_unit", "rspec_transformed_json", "jekyll"),
        "rust": ("cargo",),
    }
    return next((language for language, parsers in by_parser.items() if parser in parsers), "python")
