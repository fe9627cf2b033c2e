"""The paper's Table 2: one agent, five models, one run each."""

from typing import Final

from proctor.core.published_result import PublishedResult

_PAPER: Final = "https://arxiv.org/abs/2507.09063"
_FAMILIES: Final = {"background": 8, "database": 15, "repository": 54, "dependency": 16}
# By model: overall rate in per cent; then tasks solved, thousands of tokens and steps by family, in the order above;
# then tokens and steps overall.
_TABLE: Final = {
    "GPT-4o": ((4, 3, 21, 4), (198, 146, 323, 435), (21.5, 19.5, 21.3, 34.1), 303, 23.2),
    "GPT-4.1": ((5, 5, 25, 12), (191, 120, 448, 839), (20.8, 17.0, 27.5, 53.9), 436, 29.5),
    "Claude 3.5 Sonnet": ((6, 6, 27, 11), (121, 186, 403, 1124), (13.5, 18.0, 18.9, 40.5), 455, 21.6),
    "Claude 3.7 Sonnet": ((7, 8, 24, 14), (374, 471, 952, 1230), (28.5, 33.1, 34.3, 47.1), 869, 35.7),
    "Claude 4 Sonnet": ((6, 7, 31, 14), (617, 531, 1158, 1847), (42.3, 35.6, 42.9, 74.3), 1129, 47.1),
}
# Table 4: steps of ten repository tasks, and the share of them that a person would not have needed.
_WASTED: Final = {
    "Claude 3.5 Sonnet": 0.3817,
    "GPT-4o": 0.3938,
    "GPT-4.1": 0.4790,
    "Claude 3.7 Sonnet": 0.6265,
    "Claude 4 Sonnet": 0.6877,
}


def _row(model: str) -> PublishedResult:
    solved, tokens, steps, all_tokens, all_steps = _TABLE[model]
    details = {"tokens": all_tokens * 1000.0, "steps": all_steps, "wasted_steps": _WASTED[model]}
    for family, right, used, taken in zip(_FAMILIES, solved, tokens, steps, strict=True):
        details |= {
            f"rate.{family}": right / _FAMILIES[family],
            f"tokens.{family}": used * 1000.0,
            f"steps.{family}": taken,
        }
    total = sum(_FAMILIES.values())
    return PublishedResult(
        benchmark="setupbench",
        agent="OpenHands",
        model=model,
        date="2025-07",
        source=_PAPER,
        split="all",
        rate=sum(solved) / total,
        tasks=total,
        note="one run; tokens and steps are means, for some models over fewer runs than tasks",
        details=details,
    )


PUBLISHED: Final = tuple(_row(model) for model in _TABLE)
