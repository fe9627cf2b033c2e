"""Price tables as they are written in files."""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import field

from proctor.core.record import Record
from proctor.core.result import Tokens

TOKENS_PER_RATE: Final = 1_000_000
_WRITE_5M, _WRITE_1H, _READ = 1.25, 2.0, 0.1

Usd = Annotated[float, msgspec.Meta(ge=0)]


class Rates(Record):
    """US dollars per million tokens; the cache classes follow from `input`, and `reasoning` costs as any output does,
    where they are not given.
    """

    input: Usd
    output: Usd
    cache_write_5m: Usd | None = None
    cache_write_1h: Usd | None = None
    cache_read: Usd | None = None
    reasoning: Usd | None = None

    def cost(self, tokens: Tokens) -> float:
        """What these tokens cost, in US dollars."""
        write_5m = self.input * _WRITE_5M if self.cache_write_5m is None else self.cache_write_5m
        write_1h = self.input * _WRITE_1H if self.cache_write_1h is None else self.cache_write_1h
        read = self.input * _READ if self.cache_read is None else self.cache_read
        reasoning = self.output if self.reasoning is None else self.reasoning
        return (
            tokens.input * self.input
            + (tokens.output - tokens.reasoning) * self.output
            + tokens.reasoning * reasoning
            + tokens.cache_write_5m * write_5m
            + tokens.cache_write_1h * write_1h
            + tokens.cache_read * read
        ) / TOKENS_PER_RATE


class LongPrompt(Rates, kw_only=True):
    """The rates of a request whose prompt, cached parts included, is longer than `above_tokens`."""

    above_tokens: int


class TierRates(Rates):
    """The rates of one tier of service, and those for long prompts: one more, or one for each step of their length."""

    long_prompt: LongPrompt | tuple[LongPrompt, ...] | None = None

    def for_prompt(self, tokens: int) -> Rates:
        """The rates of a prompt of so many tokens."""
        if self.long_prompt is None:
            return self
        steps = self.long_prompt if isinstance(self.long_prompt, tuple) else (self.long_prompt,)
        reached = [step for step in steps if tokens > step.above_tokens]
        return max(reached, key=lambda step: step.above_tokens, default=self)


class ModelPrice(TierRates):
    """One model's rates, and those for fast mode and for other tiers of service.

    Attributes:
        web_search_usd: what a web search of the provider costs, where the table's own price is another provider's.
    """

    aliases: tuple[str, ...] = ()
    fast: Rates | None = None
    tiers: dict[str, TierRates] = field(default_factory=dict)
    web_search_usd: Usd | None = None


class PriceFile(Record):
    """A price table as it is written in a file; JSON or YAML."""

    models: dict[str, ModelPrice]
    date: str = ""
    sources: tuple[str, ...] = ()
    web_search_usd: Usd | None = None
    geo_multipliers: dict[str, Usd] = field(default_factory=dict)
    schema_version: Literal["proctor.prices@1"] = "proctor.prices@1"
