"""Prices in the format of litellm's ``model_prices_and_context_window.json``: dollars per token, by model.

The file also comes with litellm's package, where it is read as data: importing the package would take seconds and
fetch a newer table from the net.
"""

import importlib.metadata
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from proctor.core.errors import UsageError
from proctor.core.record import Record
from proctor.gateway.price_table import LongPrompt, ModelPrice, PriceFile, Rates, TierRates

PACKAGE: Final = "litellm"
_FILE: Final = "model_prices_and_context_window_backup.json"
_SAMPLE: Final = "sample_spec"
_MILLION: Final = 1_000_000
_ABOVE: Final = "above_tokens"
# Providers whose models are known without their prefix; what the bare name means elsewhere is another provider's.
_PLAIN_PREFIXES: Final = ("gemini/", "openai/", "anthropic/")
_MEMBERS: Final = {
    "input": "input_cost_per_token",
    "output": "output_cost_per_token",
    "cache_read": "cache_read_input_token_cost",
    "cache_write_5m": "cache_creation_input_token_cost",
    "cache_write_1h": "cache_creation_input_token_cost_above_1hr",
    "reasoning": "output_cost_per_reasoning_token",
}
_LONG: Final = re.compile(r"input_cost_per_token_above_(\d+)k_tokens")
_TIER: Final = re.compile(r"input_cost_per_token_(balanced|flex|priority|ultrafast)")
# OpenRouter's names have a vendor in them, so that they are nobody else's without its own.
_ROUTER_PREFIX: Final = "openrouter/"


_Tier = TypeVar("_Tier", bound=TierRates)


class InstalledTable(Record):
    """The table of an installed litellm."""

    path: Path
    version: str


def installed_table() -> InstalledTable:
    """The table that comes with litellm's package.

    Raises:
        UsageError: it is not installed, or has no table.
    """
    try:
        distribution = importlib.metadata.distribution(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        raise UsageError(
            "--prices litellm: litellm is not installed", fix="pip install litellm, or name a file"
        ) from None
    path = Path(str(distribution.locate_file(f"{PACKAGE}/{_FILE}")))
    if not path.is_file():
        raise UsageError(f"--prices litellm: litellm {distribution.version} has no table of prices", where=path)
    return InstalledTable(path=path, version=distribution.version)


def is_litellm_table(document: Any) -> bool:
    """Whether a document is such a table: it has a model that is priced by the token."""
    if not isinstance(document, dict) or "models" in document:
        return False
    entries = [entry for entry in document.values() if isinstance(entry, dict)]
    return any(_MEMBERS["input"] in entry or "tiered_pricing" in entry for entry in entries)


def convert_litellm_table(document: Mapping[str, Any]) -> PriceFile:
    """The same prices as our own tables have them. Entries that are not priced by the token are left out."""
    models: dict[str, ModelPrice] = {}
    for name, entry in document.items():
        if name == _SAMPLE or not isinstance(entry, dict):
            continue
        price = _model_price(entry)
        if price is not None:
            models.setdefault(name, price)
    for prefix in _PLAIN_PREFIXES:
        plain = {name.removeprefix(prefix): price for name, price in models.items() if name.startswith(prefix)}
        models |= plain
    routed = {name.removeprefix(_ROUTER_PREFIX): name for name in models if name.startswith(_ROUTER_PREFIX)}
    return PriceFile(models={name: models[full] for name, full in routed.items() if "/" in name} | models)


def _model_price(entry: Mapping[str, Any]) -> ModelPrice | None:
    steps = _length_steps(entry)
    usual = _rates(entry) if not steps else steps[0]
    if usual is None:
        return None
    tiers = {}
    for tier in {found[1] for key in entry if (found := _TIER.fullmatch(key))}:
        rates = _rates(entry, f"_{tier}", usual)
        if rates is not None:
            tiers[tier] = _with_long_prompt(TierRates, rates, _long_prompt(entry, rates, f"_{tier}"))
    search = entry.get("search_context_cost_per_query")
    per_search = _number(search.get("search_context_size_medium")) if isinstance(search, dict) else None
    long_prompt = tuple(_as_long_prompt(step) for step in steps[1:]) or _long_prompt(entry, usual)
    price = _with_long_prompt(ModelPrice, usual, long_prompt)
    return msgspec.structs.replace(price, tiers=tiers, web_search_usd=per_search)


def _with_long_prompt(
    kind: type[_Tier], rates: Mapping[str, float], long_prompt: LongPrompt | tuple[LongPrompt, ...] | None
) -> _Tier:
    plain = {name: value for name, value in rates.items() if name in Rates.__struct_fields__}
    return msgspec.structs.replace(msgspec.convert(plain, kind), long_prompt=long_prompt)


def _long_prompt(entry: Mapping[str, Any], usual: Mapping[str, float], tier: str = "") -> LongPrompt | None:
    limits = sorted(int(found[1]) for key in entry if (found := _LONG.fullmatch(key)))
    rates = _rates(entry, f"_above_{limits[0]}k_tokens{tier}", usual) if limits else None
    return None if rates is None else _as_long_prompt({**rates, _ABOVE: limits[0] * 1000})


def _as_long_prompt(rates: Mapping[str, float]) -> LongPrompt:
    return msgspec.convert({**rates, _ABOVE: int(rates[_ABOVE])}, LongPrompt)


def _length_steps(entry: Mapping[str, Any]) -> list[dict[str, float]]:
    """The rates by the length of the prompt, where a model has nothing but those; none where one cannot be read."""
    steps = []
    for step in entry.get("tiered_pricing") or ():
        rates = _rates(step) if isinstance(step, dict) else None
        limits = step.get("range") if isinstance(step, dict) else None
        above = _number(limits[0]) if isinstance(limits, list) and limits else None
        if rates is None or above is None:
            return []
        steps.append({**rates, _ABOVE: above})
    return sorted(steps, key=lambda step: step[_ABOVE])


def _rates(
    entry: Mapping[str, Any], suffix: str = "", usual: Mapping[str, float] | None = None
) -> dict[str, float] | None:
    """The rates whose members end so, per million tokens; None where it has not both of input and output.

    Where one for cached tokens is not given, it is in the same proportion to the others as usual. Where there is none
    at all, such tokens cost as much as any others of the prompt.
    """
    found = {name: _number(entry.get(member + suffix)) for name, member in _MEMBERS.items()}
    rates = {name: round(value * _MILLION, 9) for name, value in found.items() if value is not None}
    if "input" not in rates or "output" not in rates:
        return None
    if rates["input"]:
        # Zero says that writing costs nothing beside the input; the tokens themselves are paid for.
        rates = {name: rate for name, rate in rates.items() if rate or not name.startswith("cache_write")}
    for name, other in (("cache_read", "input"), ("cache_write_5m", "input"), ("cache_write_1h", "cache_write_5m")):
        proportion = usual[name] / usual[other] if usual is not None and usual[other] else 1.0
        rates.setdefault(name, round(rates[other] * proportion, 9))
    return rates


def _number(value: Any) -> float | None:
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if plain and value >= 0 else None
