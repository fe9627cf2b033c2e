"""What tokens cost: a dated table in the package, which a user's file extends or overrides.

A model that is not in the table has no price. Its cost is None and never zero.
"""

import importlib.resources
import re
from functools import lru_cache
from pathlib import Path
from typing import Final, Self

import msgspec

from proctor.core.errors import InvalidData
from proctor.core.record import Record
from proctor.core.result import Tokens
from proctor.core.user_files import parse_yaml, read_user_file
from proctor.gateway.litellm_prices import convert_litellm_table, is_litellm_table
from proctor.gateway.price_table import ModelPrice, PriceFile, Rates, TierRates

_PROVIDER: Final = re.compile(r"^(?:(?:[a-z]{2,6}\.)?anthropic[./]|openai/|google/|gemini/|models/)")
_SUFFIX: Final = re.compile(r"(?:\[1m\]|-v\d+(?::\d+)?|[-@]\d{8}|-\d{4}-\d{2}-\d{2}|-00\d|[-@]latest)$")


class Usage(Record):
    """What one response used, as the provider reported it, with all that its price depends on.

    Attributes:
        speed: a mode or tier of service that has its own price; None for the usual one.
        estimated: an upper estimate, since the provider's report did not arrive, or not to the end.
        unknown: the cost is unknown. The response was whole and did not say what it used: the tokens are an upper
            estimate. Or it used tokens whose price is in no table: of sounds, or of pictures.
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
    """A model's name in price tables: without provider, date, version and context suffix.

    Copilot CLI and OpenRouter write `claude-sonnet-4.5`.
    """
    name = _PROVIDER.sub("", model.strip().lower())
    while (shorter := _SUFFIX.sub("", name)) != name:
        name = shorter
    return name.replace(".", "-") if name.startswith("claude-") else name


class Prices:
    """Price tables, combined for lookup.

    Attributes:
        date: the day on which the built-in table was checked.
        files: the tables, in increasing priority; for a run's configuration.
    """

    def __init__(self, *tables: PriceFile, date: str | None = None, files: tuple[str, ...] = ()) -> None:
        self.date = (tables[0].date if tables else "") if date is None else date
        self.files = files
        self._tables: list[dict[str, ModelPrice]] = []
        self._geo: dict[str, float] = {}
        self._web_search: float | None = None
        for table in tables:
            self._tables.insert(0, _by_name(table))
            self._geo |= table.geo_multipliers
            if table.web_search_usd is not None:
                self._web_search = table.web_search_usd

    @classmethod
    def load(cls, *extra: Path) -> Self:
        """The built-in table, extended and overridden by the given files; those in litellm's format only extend it.

        Raises:
            UsageError: a file cannot be read.
            InvalidData: a file is no price table.
        """
        built_in = importlib.resources.files("proctor.gateway") / "prices.json"
        own = msgspec.json.decode(built_in.read_bytes(), type=PriceFile)
        read = [(str(path), *_read_price_file(path)) for path in extra]
        below = [(name, table) for name, table, is_foreign in read if is_foreign]
        above = [(name, table) for name, table, is_foreign in read if not is_foreign]
        ordered = [*below, (f"built-in {own.date}", own), *above]
        return cls(*(table for _, table in ordered), date=own.date, files=tuple(name for name, _ in ordered))

    @property
    def models(self) -> tuple[str, ...]:
        """The names of all priced models."""
        return tuple(sorted({canonical_model(name) for table in self._tables for name in table}))

    def has_price(self, model: str) -> bool:
        """Whether this model has a price."""
        return self._price(model) is not None

    def _price(self, model: str) -> ModelPrice | None:
        """The price in the first table that has the model, under the very name, or without date and provider."""
        exact, canonical = model.strip().lower(), canonical_model(model)
        for table in self._tables:
            if (found := table.get(exact) or table.get(canonical)) is not None:
                return found
        return None

    def cost(self, usage: Usage) -> float | None:
        """What one response cost, in US dollars; None when no price is known for its model, or for its mode.

        Per response, not per sum: rates depend on the length of the single prompt.
        """
        if usage.unknown:
            return None
        price = self._price(usage.model)
        rates = None if price is None else _rates(price, usage)
        if price is None or rates is None:
            return None
        per_search = self._web_search if price.web_search_usd is None else price.web_search_usd
        if usage.web_searches and per_search is None:
            return None
        searches = usage.web_searches * (per_search or 0.0)
        return rates.cost(usage.tokens) * self._geo.get(usage.geo or "", 1.0) + searches


def _by_name(table: PriceFile) -> dict[str, ModelPrice]:
    """The prices by all names. A model's plain name means the model without a date, where the table has it."""
    named = {key.strip().lower(): price for name, price in table.models.items() for key in (name, *price.aliases)}
    return {canonical_model(name): price for name, price in named.items()} | named


def _rates(price: ModelPrice, usage: Usage) -> Rates | None:
    """The rates that hold for a response; None when its mode or tier has none."""
    if usage.speed == "fast" and price.fast is not None:
        return price.fast
    tier: TierRates | None = price if usage.speed in {None, "standard"} else price.tiers.get(usage.speed or "")
    prompt = usage.tokens.total - usage.tokens.output
    if tier is not None and tier.long_prompt is None and price.for_prompt(prompt) is not price:
        return None  # what this tier charges for such a prompt is not in the table
    return None if tier is None else tier.for_prompt(prompt)


def _read_price_file(path: Path) -> tuple[PriceFile, bool]:
    """A table, and whether it is in litellm's format."""
    text = read_user_file(path, "the price table")
    try:
        document = parse_yaml(text)
    except ValueError as error:
        raise InvalidData(f"the price table is neither JSON nor YAML: {error}", where=path) from error
    if is_litellm_table(document):
        return convert_litellm_table(document), True
    try:
        return msgspec.convert(document, PriceFile), False
    except msgspec.ValidationError as error:
        raise InvalidData(
            f"not a price table: {error}",
            where=path,
            fix="give each model at least `input` and `output`, in US dollars per million tokens",
        ) from error
