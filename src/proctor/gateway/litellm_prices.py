"""Prices in the format of litellm's ``model_prices_and_context_window.json``: dollars per token, by model.

The file also comes with litellm's package, where it is read as data: importing the package would take seconds and
fetch a newer table from the net.
"""

import importlib.metadata
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from proctor.core.errors import UsageError
from proctor.core.record import Record
from proctor.gateway.price_table import LongPrompt, ModelPrice, PriceFile, Rates, TierRates

PACKAGE: Final = "litellm"
_FILE: Final = "model_prices_and_context_window_backup.json"
_SAMPLE: Final = "sample_spec"
_MILLION: Final = 1_000_000
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
_TIER: Final = re.compile(r"input_cost_per_token_(flex|priority|ultrafast)")


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
    return any(isinstance(entry, dict) and _MEMBERS["input"] in entry for entry in document.values())


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
    return PriceFile(models=models)


def _model_price(entry: Mapping[str, Any]) -> ModelPrice | None:
    usual = _rates(entry)
    if usual is None:
        return None
    tiers = {}
    for tier in {found[1] for key in entry if (found := _TIER.fullmatch(key))}:
        rates = _rates(entry, f"_{tier}", usual)
        if rates is not None:
            long_prompt = _long_prompt(entry, rates, f"_{tier}")
            tiers[tier] = msgspec.structs.replace(msgspec.convert(rates, TierRates), long_prompt=long_prompt)
    search = entry.get("search_context_cost_per_query")
    per_search = _number(search.get("search_context_size_medium")) if isinstance(search, dict) else None
    price = msgspec.convert(usual, ModelPrice)
    long_prompt = _long_prompt(entry, usual)
    return msgspec.structs.replace(price, long_prompt=long_prompt, tiers=tiers, web_search_usd=per_search)


def _long_prompt(entry: Mapping[str, Any], usual: Mapping[str, float], tier: str = "") -> LongPrompt | None:
    limits = sorted(int(found[1]) for key in entry if (found := _LONG.fullmatch(key)))
    rates = _rates(entry, f"_above_{limits[0]}k_tokens{tier}", usual) if limits else None
    return None if rates is None else msgspec.convert({**rates, "above_tokens": limits[0] * 1000}, LongPrompt)


def _rates(
    entry: Mapping[str, Any], suffix: str = "", usual: Mapping[str, float] | None = None
) -> dict[str, float] | None:
    """The rates whose members end so, per million tokens; where one is not given, that of the usual ones.

    Without a rate of their own, cached tokens cost as much as any others: so litellm counts.
    """
    found = {name: _number(entry.get(member + suffix)) for name, member in _MEMBERS.items()}
    if found["input"] is None or found["output"] is None:
        if usual is None or found["input"] is None:
            return None
        found["output"] = usual["output"] / _MILLION
    rates = {name: value * _MILLION for name, value in found.items() if value is not None}
    for name in ("cache_read", "cache_write_5m"):
        rates.setdefault(name, (usual or {}).get(name, rates["input"]) if suffix else rates["input"])
    rates.setdefault("cache_write_1h", rates["cache_write_5m"])
    return {name: round(value, 9) for name, value in rates.items() if name in Rates.__struct_fields__}


def _number(value: Any) -> float | None:
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if plain and value >= 0 else None
