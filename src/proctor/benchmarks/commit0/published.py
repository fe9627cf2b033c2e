"""The official leaderboard of Commit0, as of December 2024."""

from typing import Final

from proctor.core.published_result import PublishedResult

_SITE: Final = "https://commit-0.github.io/analysis"
_SONNET: Final = "Claude 3.5 Sonnet"


def _row(  # noqa: PLR0917 - the columns of a table
    split: str, agent: str, model: str, counts: tuple[int, int], score: float, note: str = ""
) -> PublishedResult:
    return PublishedResult(
        benchmark="commit0",
        split=split,
        agent=agent,
        model=model,
        date="2024-12",
        source=_SITE,
        rate=counts[0] / counts[1],
        score=score,
        tasks=counts[1],
        note=note or "the score is the share of unit tests that pass",
    )


_REFERENCE_NOTE: Final = "the original libraries, which do not pass all of their tests either"
PUBLISHED: Final = (
    _row("lite", "OpenHands", _SONNET, (2, 16), 0.4124, "taken from its run on all libraries"),
    _row("lite", "SDE-I, fill-in and test feedback", _SONNET, (0, 16), 0.3059),
    _row("lite", "SDE-I, fill-in", _SONNET, (0, 16), 0.1863),
    _row("lite", "SDE-I", _SONNET, (0, 16), 0.1838),
    _row("lite", "SWE-agent", _SONNET, (0, 16), 0.0970),
    _row("lite", "reference", "none", (10, 16), 1.0, _REFERENCE_NOTE),
    _row("all", "reference", "none", (19, 56), 0.9829, _REFERENCE_NOTE),
    _row("all", "OpenHands", _SONNET, (2, 56), 0.1508),
    _row("all", "SDE-I, fill-in", _SONNET, (0, 56), 0.0598),
    _row("all", "SWE-agent", _SONNET, (0, 56), 0.0299),
)
