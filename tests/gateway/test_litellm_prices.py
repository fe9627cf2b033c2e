import json
import sys
from pathlib import Path
from typing import Any

import pytest

from proctor.core.errors import UsageError
from proctor.core.result import Tokens
from proctor.gateway.litellm_prices import convert_litellm_table, installed_table, is_litellm_table
from proctor.gateway.prices import Prices, Usage
from proctor.runner.models import load_prices, prices_version

TABLE: dict[str, Any] = {
    "sample_spec": {"input_cost_per_token": 0.0, "output_cost_per_token": 0.0, "litellm_provider": "see docs"},
    "new-model": {
        "input_cost_per_token": 2e-06,
        "output_cost_per_token": 1e-05,
        "cache_read_input_token_cost": 1e-07,
        "cache_creation_input_token_cost": 2.5e-06,
        "output_cost_per_reasoning_token": 2e-05,
        "input_cost_per_token_above_272k_tokens": 4e-06,
        "output_cost_per_token_above_272k_tokens": 1.5e-05,
        "cache_read_input_token_cost_above_272k_tokens": 2e-07,
        "input_cost_per_token_flex": 1e-06,
        "output_cost_per_token_flex": 5e-06,
        "search_context_cost_per_query": {"search_context_size_medium": 0.014},
    },
    "half-tier": {
        "input_cost_per_token": 5e-08,
        "output_cost_per_token": 4e-07,
        "input_cost_per_token_priority": 2.5e-06,
        "input_cost_per_token_above_200k_tokens": 1e-07,
        "output_cost_per_token_above_200k_tokens": 8e-07,
        "input_cost_per_token_flex": 2.5e-08,
        "output_cost_per_token_flex": 2e-07,
    },
    "cached-model": {
        "input_cost_per_token": 1e-06,
        "output_cost_per_token": 1e-06,
        "cache_creation_input_token_cost": 2e-06,
        "cache_creation_input_token_cost_above_1hr": 3e-06,
        "cache_creation_input_token_cost_priority": 4e-06,
        "input_cost_per_token_priority": 2e-06,
        "output_cost_per_token_priority": 2e-06,
    },
    "dashscope/by-length": {
        "tiered_pricing": [
            {"input_cost_per_token": 1e-06, "output_cost_per_token": 5e-06, "range": [0, 32000.0]},
            {"input_cost_per_token": 3e-06, "output_cost_per_token": 15e-06, "range": [128000.0, 256000.0]},
            {"input_cost_per_token": 2e-06, "output_cost_per_token": 10e-06, "range": [32000.0, 128000.0]},
        ]
    },
    "openrouter/vendor/routed": {"input_cost_per_token": 1e-06, "output_cost_per_token": 2e-06},
    "plain-model": {"input_cost_per_token": 1e-06, "output_cost_per_token": 2e-06},
    "gemini/known-twice": {"input_cost_per_token": 1e-06, "output_cost_per_token": 2e-06},
    "known-twice": {"input_cost_per_token": 9e-06, "output_cost_per_token": 9e-06},
    "dated-model": {"input_cost_per_token": 1e-06, "output_cost_per_token": 1e-06},
    "dated-model-2024-05-13": {"input_cost_per_token": 5e-06, "output_cost_per_token": 5e-06},
    "claude-sonnet-4-5": {"input_cost_per_token": 1.0, "output_cost_per_token": 1.0},
    "pictures": {"output_cost_per_image": 0.04, "mode": "image_generation"},
    "broken": {"input_cost_per_token": "free", "output_cost_per_token": 1e-06},
}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    file = tmp_path / "model_prices_and_context_window.json"
    file.write_text(json.dumps(TABLE))
    return file


def cost(prices: Prices, model: str, speed: str | None = None, **tokens: int) -> float | None:
    return prices.cost(Usage(model=model, tokens=Tokens(**tokens), speed=speed))


def test_every_class_of_tokens_has_the_tables_price(table: Path) -> None:
    prices = Prices.load(table)
    assert cost(prices, "new-model", input=100, output=10) == pytest.approx(100 * 2e-6 + 10 * 1e-5)
    assert cost(prices, "new-model", cache_read=100) == pytest.approx(1e-5)
    assert cost(prices, "new-model", cache_write_5m=100) == pytest.approx(2.5e-4)
    assert cost(prices, "new-model", output=10, reasoning=4) == pytest.approx(6 * 1e-5 + 4 * 2e-5)
    assert cost(prices, "new-model", input=300_000) == pytest.approx(300_000 * 4e-6)
    assert cost(prices, "new-model", "flex", input=100) == pytest.approx(1e-4)
    assert cost(prices, "new-model", "priority", input=100) is None
    assert prices.cost(Usage(model="new-model", web_searches=2)) == pytest.approx(0.028)


def test_cached_tokens_without_a_price_of_their_own_cost_as_others(table: Path) -> None:
    assert cost(Prices.load(table), "plain-model", cache_read=100) == pytest.approx(1e-4)


def test_cached_tokens_of_a_tier_without_a_price_of_their_own_cost_in_proportion(table: Path) -> None:
    prices = Prices.load(table)
    assert cost(prices, "half-tier", "flex", cache_write_5m=1_000_000 // 8) == pytest.approx(0.025 / 8)
    assert cost(prices, "half-tier", cache_write_5m=300_000) == pytest.approx(0.03)
    assert cost(prices, "cached-model", cache_write_5m=1_000_000, cache_write_1h=1_000_000) == pytest.approx(5)
    assert cost(prices, "cached-model", "priority", cache_write_5m=1_000_000) == pytest.approx(4)
    assert cost(prices, "cached-model", "priority", cache_write_1h=1_000_000) == pytest.approx(6)


def test_rates_missing_from_a_tier_are_unknown(table: Path) -> None:
    prices = Prices.load(table)
    assert cost(prices, "half-tier", "priority", input=100) is None
    assert cost(prices, "half-tier", "flex", input=100) is not None
    assert cost(prices, "half-tier", "flex", input=300_000) is None


@pytest.mark.parametrize(("prompt", "rate"), [(32_000, 1), (32_001, 2), (128_000, 2), (128_001, 3), (900_000, 3)])
def test_prices_may_depend_on_the_length_of_the_prompt_in_steps(table: Path, prompt: int, rate: int) -> None:
    found = cost(Prices.load(table), "dashscope/by-length", input=prompt, output=10)
    assert found == pytest.approx(prompt * rate / 1e6 + 10 * rate * 5 / 1e6)


def test_names_of_a_router_are_known_without_its_own(table: Path) -> None:
    assert cost(Prices.load(table), "vendor/routed", input=1_000_000) == pytest.approx(1)
    assert not Prices.load(table).has_price("routed")


def test_our_own_table_comes_first_and_a_users_own_before_it(table: Path, tmp_path: Path) -> None:
    assert cost(Prices.load(table), "claude-sonnet-4-5", input=1_000_000) == 3
    own = tmp_path / "own.yaml"
    own.write_text("models: {claude-sonnet-4-5: {input: 7, output: 7}, new-model: {input: 8, output: 8}}")
    prices = Prices.load(own, table)
    assert cost(prices, "claude-sonnet-4-5", input=1_000_000) == 7
    assert cost(prices, "new-model", input=1_000_000) == 8
    assert prices.files == (str(table), f"built-in {prices.date}", str(own))


def test_a_dated_model_has_its_own_price_and_the_plain_name_the_plain_ones(table: Path) -> None:
    prices = Prices.load(table)
    assert cost(prices, "dated-model-2024-05-13", input=1_000_000) == pytest.approx(5)
    assert cost(prices, "dated-model", input=1_000_000) == pytest.approx(1)
    assert cost(prices, "dated-model-2025-01-01", input=1_000_000) == pytest.approx(1)


def test_a_bare_name_is_that_of_the_gemini_api(table: Path) -> None:
    assert cost(Prices.load(table), "known-twice", input=1_000_000) == pytest.approx(1)


def test_a_model_without_token_prices_has_no_price(table: Path) -> None:
    prices = Prices.load(table)
    assert not any(prices.has_price(model) for model in ("sample_spec", "pictures", "broken"))
    assert not is_litellm_table({"models": {}})
    assert convert_litellm_table({}).models == {}


def test_the_table_of_an_installed_litellm_is_read_without_importing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="litellm is not installed"):
        installed_table()
    (tmp_path / "litellm").mkdir()
    (tmp_path / "litellm" / "__init__.py").write_text("raise AssertionError('it was imported')")
    (tmp_path / "litellm" / "model_prices_and_context_window_backup.json").write_text(json.dumps(TABLE))
    info = tmp_path / "litellm-1.2.3.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: litellm\nVersion: 1.2.3\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert load_prices("litellm").has_price("new-model")
    assert prices_version("litellm").startswith("litellm 1.2.3 ")
