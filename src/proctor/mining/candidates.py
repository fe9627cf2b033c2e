"""Which changes of a history are worth trying, and why the others are not."""

import re
from enum import StrEnum
from typing import Final

from proctor.core.record import Record
from proctor.grading import is_protected
from proctor.mining.history import ChangedPath, HistoryChange
from proctor.mining.settings import MineOptions, MineSettings
from proctor.mining.split import PathRole, SplitChange, SplitRules, language_of, split_change

_BOTS: Final = re.compile(
    r"\[bot\]|dependabot|renovate|pre-commit-ci|github-actions|greenkeeper|snyk-bot|weblate", re.IGNORECASE
)
_REVERT: Final = re.compile(r'^Revert "')


class Stage(StrEnum):
    """Where a change left the funnel; the order is that of the funnel."""

    COMMIT = "commit"  # its message, author, size or paths
    SETUP = "setup"  # what the tests need cannot be installed
    TESTS = "tests"  # the tests cannot be run, or show nothing
    PROOF = "proof"  # the task leaks, is not healthy, or is not fair
    TASK = "task"  # it became a task


class Candidate(Record):
    """A change that may become a task."""

    change: HistoryChange
    split: SplitChange
    language: str


class SkippedChange(Record):
    """Why a change is no candidate: a short code for counting, and a sentence."""

    code: str
    reason: str


def judge_change(
    change: HistoryChange, paths: tuple[ChangedPath, ...], options: MineOptions, settings: MineSettings
) -> Candidate | SkippedChange:
    """Whether a change is worth trying, from its message, its author and its paths alone."""
    passed = _by_message(change, options)
    if passed is not None:
        return passed
    names = [path.path for path in paths]
    if options.only and not any(is_protected(name, options.only) for name in names):
        return SkippedChange(code="path", reason="touches none of the chosen paths")
    if options.without and any(is_protected(name, options.without) for name in names):
        return SkippedChange(code="path", reason="touches an excluded path")
    given = settings.paths
    split = split_change(paths, SplitRules(tests=given.tests, source=given.source, generated=given.generated))
    return _by_split(change, split, options, settings)


def _by_message(change: HistoryChange, options: MineOptions) -> SkippedChange | None:
    if not change.parent:
        return SkippedChange(code="root", reason="the first commit has no parent to start from")
    author = f"{change.author} {change.email}"
    if _BOTS.search(author):
        return SkippedChange(code="author", reason=f"a bot made it: {change.author}")
    if any(part.lower() in author.lower() for part in options.exclude_authors):
        return SkippedChange(code="author", reason=f"excluded author: {change.author}")
    if _REVERT.match(change.subject):
        return SkippedChange(code="revert", reason="is a revert")
    return None


def _by_split(
    change: HistoryChange, split: SplitChange, options: MineOptions, settings: MineSettings
) -> Candidate | SkippedChange:
    tests = [path for path in split.tests if path.status != "D"]
    if not split.of(PathRole.SOURCE):
        return SkippedChange(code="no-source", reason="changes no source")
    if not split.tests:
        return SkippedChange(code="no-tests", reason="changes no tests")
    if not tests:
        return SkippedChange(code="no-tests", reason="only removes tests")
    language = settings.setup.language or split.language or ("other" if settings.test.command else None)
    if language is None:
        return SkippedChange(code="language", reason="changes source of no language that is known")
    runnable = [path for path in tests if language_of(path.path) == language]
    if not runnable and not settings.test.command:
        return SkippedChange(code="no-tests", reason=f"changes no test file in {language}")
    if split.source_files > options.max_files:
        return SkippedChange(code="too-large", reason=f"changes {split.source_files} files of source")
    if split.source_lines > options.max_lines:
        return SkippedChange(code="too-large", reason=f"changes {split.source_lines} lines of source")
    if split.source_lines < options.min_lines:
        return SkippedChange(code="too-small", reason=f"changes {split.source_lines} lines of source")
    return Candidate(change=change, split=split, language=language)
