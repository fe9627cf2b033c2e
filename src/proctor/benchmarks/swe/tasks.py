"""From rows to tasks: what the agent is shown, what it never sees, and what reports break results down by."""

import hashlib

import msgspec

from proctor.benchmarks.swe.official_grader import OfficialGrader
from proctor.benchmarks.swe.patches import patch_size_categories, protected_patterns
from proctor.benchmarks.swe.reporter_step import reporter_step
from proctor.benchmarks.swe.rows import FeatureBenchRow, R, SweBenchProRow, SweBenchRow, SweEvoRow, SweRow
from proctor.core.submission import PatchKind
from proctor.core.task import ImageSource, Oracle, PrivatePart, PublicPart, Task


def task_of(benchmark: str, row: R, official_grader: OfficialGrader[R]) -> Task:
    """One row as a task."""
    start = official_grader.start_state(row)
    oracle, step = official_grader.oracle_patch(row), reporter_step(row)
    return Task(
        id=row.instance_id,
        benchmark=benchmark,
        public=PublicPart(
            instruction=official_grader.instruction(row),
            source=ImageSource(image=row.image, workdir=start.workdir),
            alias=_alias(row),
        ),
        private=PrivatePart(
            oracle=None
            if oracle is None
            else Oracle(text=oracle.decode("utf-8", "surrogateescape"), patch_kind=PatchKind.UNIFIED_DIFF),
            fail_to_pass=row.fail_to_pass,
            pass_to_pass=row.pass_to_pass,
            protected=protected_patterns(row, oracle or b"", program=step.program if step is not None else ()),
        ),
        categories=_categories(row, oracle),
    )


def row_fingerprint(row: SweRow) -> str:
    """Identifies all of a row."""
    return hashlib.sha256(msgspec.json.encode(row)).hexdigest()


def _alias(row: SweRow) -> str | None:
    """Pro's ids hold the oracle's commit, so that an agent is given another name."""
    if isinstance(row, SweBenchProRow):
        return f"{row.repo.replace('/', '__')}-{hashlib.sha256(row.instance_id.encode()).hexdigest()[:12]}"
    return None


def _categories(row: SweRow, oracle_patch: bytes | None) -> dict[str, str]:
    found = {"repository": row.repo, "language": "python"}
    match row:
        case SweBenchRow():
            found |= {"difficulty": row.difficulty, "language": _language(row.log_parser)}
        case SweBenchProRow():
            found |= {"language": {"js": "javascript", "ts": "typescript"}.get(row.repo_language, row.repo_language)}
        case SweEvoRow():
            found |= {"origin": row.bench}
        case FeatureBenchRow():
            found |= {"level": str(row.level)}
    if oracle_patch is not None:
        found |= patch_size_categories(oracle_patch.decode("utf-8", "surrogateescape"))
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
