"""Rows of the official leaderboards."""

from typing import Final

from proctor.core.published_result import PublishedResult

_SITE: Final = "https://www.tbench.ai/leaderboard"
# Agent, model, 2.0, 2.1; the errors of those that have them.
_TABLE: Final = (
    ("Codex CLI", "GPT-5.3-Codex", 0.733, 0.791, None, 0.024),
    ("Codex CLI", "GPT-5.4", 0.760, 0.773, None, None),
    ("Terminus 2", "Gemini 3.1 Pro", 0.630, 0.707, None, None),
    ("Claude Code", "Claude Opus 4.6", 0.580, 0.701, 0.029, 0.029),
    ("Terminus 2", "Claude Opus 4.6", 0.629, 0.638, None, None),
    ("Claude Code", "Claude Sonnet 4.6", 0.519, 0.585, None, None),
    ("Terminus 2", "Claude Sonnet 4.6", 0.480, 0.515, None, None),
    ("Codex CLI", "GPT-5.4-mini", 0.578, 0.661, None, None),
    ("Gemini CLI", "Gemini 3 Flash", 0.474, 0.569, None, None),
)
_FIRST: Final = (
    ("Claude Code", "Claude 3.7 Sonnet", 0.352),
    ("Claude Code", "Claude Sonnet 4", 0.355),
    ("Claude Code", "Claude Opus 4", 0.432),
)


def _rows() -> tuple[PublishedResult, ...]:
    rows = []
    for agent, model, two, two_one, *errors in _TABLE:
        for split, rate, error in zip(("2.0", "2.1"), (two, two_one), errors, strict=True):
            rows.append(_row(agent, model, split, rate, tasks=89, date="2026-05", error=error))
    return (
        *rows,
        *(_row(agent, model, "1.0", rate, tasks=80, date="2025-09", error=None) for agent, model, rate in _FIRST),
    )


def _row(
    agent: str, model: str, split: str, rate: float, *, tasks: int, date: str, error: float | None
) -> PublishedResult:
    return PublishedResult(
        benchmark="terminal_bench",
        agent=agent,
        model=model,
        date=date,
        source=f"{_SITE}/terminal-bench/{split}",
        split=split,
        rate=rate,
        tasks=tasks,
        note="mean of the tasks' means over five trials each; results of different versions do not compare",
        details=None if error is None else {"standard_error": error},
    )


PUBLISHED: Final = _rows()
