"""What METR and others have published of RE-Bench; scores of agents over all families are there as figures only."""

from typing import Final

from proctor.core.published_result import PublishedResult

PUBLISHED: Final = (
    PublishedResult(
        benchmark="re_bench",
        agent="human experts, 8 hours",
        model="none",
        date="2024-11-22",
        source="https://arxiv.org/abs/2411.15114",
        rate=0.24,
        tasks=7,
        note="71 attempts by 61 experts; the rate is the share that reached the reference",
        details={"share above the start": 0.82, "attempts": 71.0},
    ),
    PublishedResult(
        benchmark="re_bench",
        agent="human experts, best of 9",
        model="none",
        date="2024-11-22",
        source="https://arxiv.org/abs/2411.15114",
        tasks=1,
        note="ai_rd_triton_cumsum alone, as its own score (less is better); 4 of 9 beat the reference of 0.47",
        details={"ai_rd_triton_cumsum": -0.405},
    ),
    PublishedResult(
        benchmark="re_bench",
        agent="METR's scaffolds",
        model="Claude 4",
        date="2025-10",
        source="https://huggingface.co/datasets/metr-evals/malt-public",
        tasks=3,
        note="the best of all published transcripts, as the families' own scores, tallied by a third party",
        details={
            "ai_rd_triton_cumsum": 0.379,
            "ai_rd_nanogpt_chat_rl": 0.816,
            "ai_rd_rust_codecontests_inference": 0.0545,
        },
    ),
)
