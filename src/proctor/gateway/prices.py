"""What tokens cost: a dated table in the package, which a user's file extends or overrides.

A model that is not in the table has no price. Its cost is None and never zero.
"""

import importlib.resources
import re
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Final, Literal, Self

import msgspec
from msgspec import field

from proctor.core.errors import InvalidData
from proctor.core.record import Record
from proctor.core.result import Tokens
from proctor.core.user_files import parse_yaml, read_user_file

TOKENS_PER_RATE: Final = 1_000_000
_WRITE_5M, _WRITE_1H, _READ = 1.25, 2.0, 0.1
_PROVIDER: Final = re.compile(r"^(?:[a-z]{2,6}\.)?anthropic[./]")
_SUFFIX: Final = re.compile(r"(?:\[1m\]|-v\d+(?::\d+)?|[-@]\d{8}|[-@]latest)$")

Usd = Annotated[float, msgspec.Meta(ge=0)]


class Rates(Record):
    """US dollars per million tokens; the cache classes follow from `input` where they are not given."""

    input: Usd
    output: Usd
    cache_write_5m: Usd | None = None
    cache_write_1h: Usd | None = None
    cache_read: Usd | None = None

    def cost(self, tokens: Tokens) -> float:
        """What these tokens cost, in US dollars."""
        write_5m = self.input * _WRITE_5M if self.cache_write_5m is None else self.cache_write_5m
        write_1h = self.input * _WRITE_1H if self.cache_write_1h is None else self.cache_write_1h
        read = self.input * _READ if self.cache_read is None else self.cache_read
        return (
            tokens.input * self.input
            + tokens.output * self.output
            + tokens.cache_write_5m * write_5m
            + tokens.cache_write_1h * write_1h
            + tokens.cache_read * read
        ) / TOKENS_PER_RATE


class LongPrompt(Rates, kw_only=True):
    """The rates of a request whose prompt, cached parts included, is longer than `above_tokens`."""

    above_tokens: int


class ModelPrice(Rates):
    """One model's rates, and those for fast mode and for long prompts."""

    aliases: tuple[str, ...] = ()
    fast: Rates | None = None
    long_prompt: LongPrompt | None = None


class PriceFile(Record):
    """A price table as it is written in a file; JSON or YAML."""

    models: dict[str, ModelPrice]
    date: str = ""
    sources: tuple[str, ...] = ()
    web_search_usd: Usd | None = None
    geo_multipliers: dict[str, Usd] = field(default_factory=dict)
    schema_version: Literal["proctor.prices@1"] = "proctor.prices@1"


class Usage(Record):
    """What one response used, as the provider reported it, with all that its price depends on.

    Attributes:
        speed: a mode or tier of service that has its own price; None for the usual one.
        estimated: an upper estimate, since the provider's report did not arrive, or not to the end.
        unknown: the response was whole and did not say what it used: the tokens are an upper estimate, and the cost is
            unknown.
    """

    model: str
    tokens: Tokens = Tokens()
    web_searches: int = 0
    speed: str | None = None
    geo: str | None = None
    estimated: bool = False
    unknown: bool = False


@lru_cache(maxsize=256)
def canonical_model(model: str) -> str:
    """A model's name in price tables: without provider, date, version and context suffix."""
    name = _PROVIDER.sub("", model.strip().lower())
    while (shorter := _SUFFIX.sub("", name)) != name:
        name = shorter
    return name


class Prices:
    """Price tables, combined for lookup.

    Attributes:
        date: the day on which the built-in table was checked.
        files: the tables, in increasing priority; for a run's configuration.
    """

    def __init__(self, *tables: PriceFile, files: tuple[str, ...] = ()) -> None:
        self.date = tables[0].date if tables else ""
        self.files = files
        self._models: dict[str, ModelPrice] = {}
        self._geo: dict[str, float] = {}
        self._web_search: float | None = None
        for table in tables:
            for name, price in table.models.items():
                for key in (name, *price.aliases):
                    self._models[canonical_model(key)] = price
            self._geo |= table.geo_multipliers
            if table.web_search_usd is not None:
                self._web_search = table.web_search_usd

    @classmethod
    def load(cls, *extra: Path) -> Self:
        """The built-in table, extended and overridden by the given files.

        Raises:
            UsageError: a file cannot be read.
            InvalidData: a file is no price table.
        """
        built_in = importlib.resources.files("proctor.gateway") / "prices.json"
        tables = [msgspec.json.decode(built_in.read_bytes(), type=PriceFile)]
        tables.extend(_read_price_file(path) for path in extra)
        return cls(*tables, files=(f"built-in {tables[0].date}", *map(str, extra)))

    @property
    def models(self) -> tuple[str, ...]:
        """The names of all priced models."""
        return tuple(sorted(self._models))

    def has_price(self, model: str) -> bool:
        """Whether this model has a price."""
        return canonical_model(model) in self._models

    def cost(self, usage: Usage) -> float | None:
        """What one response cost, in US dollars; None when no price is known for its model, or for its mode.

        Per response, not per sum: rates depend on the length of the single prompt.
        """
        if usage.unknown:
            return None
        price = self._models.get(canonical_model(usage.model))
        fast = usage.speed == "fast"
        if price is None or (fast and price.fast is None) or (usage.web_searches and self._web_search is None):
            return None
        tokens = usage.tokens
        prompt = tokens.total - tokens.output
        rates: Rates = price
        if price.long_prompt is not None and prompt > price.long_prompt.above_tokens:
            rates = price.long_prompt
        if fast and price.fast is not None:
            rates = price.fast
        searches = usage.web_searches * (self._web_search or 0.0)
        return rates.cost(tokens) * self._geo.get(usage.geo or "", 1.0) + searches


def _read_price_file(path: Path) -> PriceFile:
    text = read_user_file(path, "the price table")
    try:
        document = parse_yaml(text)
    except ValueError as error:
        raise InvalidData(f"the price table is neither JSON nor YAML: {error}", where=path) from error
    try:
        return msgspec.convert(document, PriceFile)
    except msgspec.ValidationError as error:
        raise InvalidData(
            f"not a price table: {error}",
            where=path,
            fix="give each model at least `input` and `output`, in US dollars per million tokens",
        ) from error
