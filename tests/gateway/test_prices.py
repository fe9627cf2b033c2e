import importlib.resources
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from proctor.core.errors import InvalidData, UsageError
from proctor.core.result import Tokens
from proctor.gateway.price_table import ModelPrice, PriceFile, Rates
from proctor.gateway.prices import Prices, Usage, canonical_model

MILLION = Tokens(
    input=1_000_000, output=1_000_000, cache_read=1_000_000, cache_write_5m=1_000_000, cache_write_1h=1_000_000
)


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
        ("anthropic/claude-opus-5-5", "claude-opus-5-5"),
        ("claude-opus-5-5[1m]", "claude-opus-5-5"),
        ("claude-haiku-4-5@20251001", "claude-haiku-4-5"),
        ("claude-3-5-sonnet-latest", "claude-3-5-sonnet"),
        (" Claude-Sonnet-5 ", "claude-sonnet-5"),
    ],
)
def test_a_model_is_priced_under_one_name(name: str, canonical: str) -> None:
    assert canonical_model(name) == canonical


@pytest.mark.parametrize(
    ("model", "usd"),
    [
        ("claude-sonnet-4-5", 3 + 15 + 0.3 + 3.75 + 6),
        ("claude-opus-5-5", 4 + 20 + 0.2 + 5 + 8),
        ("claude-opus-4-0", 15 + 75 + 1.5 + 18.75 + 30),
        ("claude-haiku-4-5-20251001", 1 + 5 + 0.1 + 1.25 + 2),
    ],
)
def test_every_class_of_tokens_has_its_own_price(model: str, usd: float) -> None:
    assert Prices.load().cost(Usage(model=model, tokens=MILLION)) == pytest.approx(usd)


def test_a_model_that_is_not_in_the_table_has_no_price() -> None:
    prices = Prices.load()
    assert prices.cost(Usage(model="gpt-oss", tokens=MILLION)) is None
    assert prices.cost(Usage(model="gpt-oss")) is None
    assert not prices.has_price("gpt-oss")


def test_the_length_of_the_single_prompt_decides_where_the_table_says_so() -> None:
    prices = Prices.load()
    short = Usage(model="claude-haiku-5-5", tokens=Tokens(input=60_000, cache_read=40_000))
    long = Usage(model="claude-haiku-5-5", tokens=Tokens(input=60_000, cache_read=40_001))
    assert prices.cost(short) == pytest.approx((60_000 * 0.1 + 40_000 * 0.01) / 1e6)
    assert prices.cost(long) == pytest.approx((60_000 * 0.5 + 40_001 * 0.05) / 1e6)


def test_fast_responses_regions_and_web_searches_cost_more() -> None:
    prices = Prices.load()
    tokens = Tokens(input=1_000_000)
    assert prices.cost(Usage(model="claude-opus-5-5", tokens=tokens, speed="fast")) == pytest.approx(8)
    assert prices.cost(Usage(model="claude-opus-5-5", tokens=tokens, geo="us")) == pytest.approx(4.4)
    assert prices.cost(Usage(model="claude-opus-5-5", tokens=tokens, web_searches=3)) == pytest.approx(4.03)


def test_a_way_of_serving_that_has_no_price_is_unknown_and_not_the_usual_price() -> None:
    assert Prices.load().cost(Usage(model="claude-sonnet-4-5", tokens=MILLION, speed="fast")) is None


def test_the_built_in_table_says_when_it_was_checked_and_where_it_is_from() -> None:
    prices = Prices.load()
    assert prices.date == "2026-11-15"
    assert prices.files == ("built-in 2026-11-15",)


def test_a_users_table_adds_models_and_overrides_them(tmp_path: Path) -> None:
    table = tmp_path / "prices.yaml"
    table.write_text("models:\n  my-model: {input: 1, output: 2}\n  claude-sonnet-4-5: {input: 10, output: 20}\n")
    prices = Prices.load(table)
    assert prices.cost(Usage(model="my-model", tokens=MILLION)) == pytest.approx(1 + 2 + 0.1 + 1.25 + 2)
    assert prices.cost(Usage(model="claude-sonnet-4-5-20250929", tokens=Tokens(input=1_000_000))) == pytest.approx(10)
    assert prices.cost(Usage(model="claude-opus-5", tokens=Tokens(output=1_000_000))) == pytest.approx(25)
    assert prices.files[-1] == str(table)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("models: {m: {input: 1}}", "output"),
        ("models: {m: {input: -1, output: 2}}", "input"),
        ("models: [", "neither JSON nor YAML"),
        ("{}", "models"),
    ],
)
def test_a_table_that_is_none_is_refused_with_the_place(tmp_path: Path, content: str, complaint: str) -> None:
    table = tmp_path / "prices.yaml"
    table.write_text(content)
    with pytest.raises(InvalidData, match=complaint) as caught:
        Prices.load(table)
    assert str(table) in str(caught.value)


def test_a_table_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read the price table"):
        Prices.load(tmp_path / "nothing.json")


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("gpt-5.5-2026-04-23", "gpt-5.5"),
        ("openai/gpt-5.5", "gpt-5.5"),
        ("models/gemini-2.5-pro", "gemini-2.5-pro"),
        ("gemini/gemini-2.5-flash-001", "gemini-2.5-flash"),
        ("gemini-3.1-pro-preview", "gemini-3.1-pro-preview"),
        ("anthropic/claude-sonnet-4.5", "claude-sonnet-4-5"),
        ("claude-3.7-sonnet", "claude-3-7-sonnet"),
    ],
)
def test_models_of_other_providers_are_priced_under_one_name_too(name: str, canonical: str) -> None:
    assert canonical_model(name) == canonical


@pytest.mark.parametrize(
    "model",
    [
        *("gpt-6.1-sol", "gpt-5.5", "gpt-5-codex", "gpt-5.4-nano", "gemini-3.8-flash", "gemini-2.5-pro"),
        *("gemini-3.1-pro-preview-customtools", "qwen3-coder-plus", "kimi-k3", "claude-sonnet-4.5", "claude-haiku-4.5"),
        *("claude-opus-5-5", "claude-opus-4-7", "gpt-4o", "gpt-5.4", "deepseek-v4-pro", "kimi-k2.6", "glm-5.1"),
    ],
)
def test_the_models_that_other_agents_default_to_have_prices(model: str) -> None:
    prices = Prices.load()
    assert prices.cost(Usage(model=model, tokens=MILLION))
    cached, plain = (Usage(model=model, tokens=tokens) for tokens in (Tokens(cache_read=1000), Tokens(input=1000)))
    assert (prices.cost(cached) or 0) < (prices.cost(plain) or 0)


def _all_rates(price: ModelPrice) -> Iterator[Rates]:
    for tier in (price, *price.tiers.values(), *([price.fast] if price.fast else [])):
        yield tier
        steps = getattr(tier, "long_prompt", None)
        yield from steps if isinstance(steps, tuple) else [steps] if steps is not None else []


def test_no_rate_of_our_own_table_is_out_of_proportion() -> None:
    """Cached tokens are cheaper to read than to send and dearer to write, and output is dearer than input."""
    file = importlib.resources.files("proctor.gateway") / "prices.json"
    for name, price in msgspec.json.decode(file.read_bytes(), type=PriceFile).models.items():
        for rates in _all_rates(price):
            assert rates.cache_read is not None, name
            assert rates.cache_read < rates.input <= (rates.cache_write_5m or rates.input), name
            assert (rates.cache_write_5m or 0) <= (rates.cache_write_1h or 0), name
            assert 2 * rates.input < rates.output < 20 * rates.input, name


def test_a_tier_has_its_own_price_or_none_that_is_known() -> None:
    prices = Prices.load()
    usual, flex, unknown = (
        prices.cost(Usage(model="gpt-5.5", tokens=Tokens(input=1_000), speed=speed)) for speed in (None, "flex", "x")
    )
    assert usual is not None
    assert flex == pytest.approx(usual / 2)
    assert unknown is None


def test_a_response_whose_usage_is_unknown_has_no_known_cost() -> None:
    assert Prices.load().cost(Usage(model="gpt-5.5", tokens=Tokens(input=1), unknown=True)) is None
