from pathlib import Path

import pytest

from proctor.agents import agent_class
from proctor.core.errors import InvalidData, UsageError
from proctor.core.model_aliases import MODEL_ALIASES
from proctor.gateway import GatewaySessionSpec, ProviderAuth, Providers, ReplayBackend, ScriptBackend, Upstream
from proctor.runner.models import SCRIPTED_MODEL, ModelAccess, asked_dialects, make_backend, parse_model
from sessions import Toys
from toy_provider import KEY


def test_a_short_name_is_one_model_and_any_other_name_is_itself() -> None:
    assert parse_model("haiku").model == MODEL_ALIASES["haiku"]
    assert parse_model("claude-x:beta").model == "claude-x:beta"
    assert parse_model("haiku").text == MODEL_ALIASES["haiku"]


def test_a_script_is_meant_from_where_it_was_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text("default: [{text: hi}]\n")
    choice = parse_model("script:s.yaml")
    assert (choice.model, choice.text) == (SCRIPTED_MODEL, f"script:{tmp_path / 's.yaml'}")
    monkeypatch.chdir("/")
    assert parse_model(choice.text) == choice
    assert isinstance(make_backend(choice, ModelAccess()), ScriptBackend)


@pytest.mark.parametrize("text", ["", "  ", "script:", "replay:"])
def test_a_model_that_names_nothing_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_model(text)


async def test_a_recording_is_asked_for_by_the_model_that_it_was_made_with(
    toys: Toys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROCTOR_RESULTS", str(toys.folder / "results"))
    await toys.create(agent="command", command=("true",), model="opus")
    choice = parse_model("replay:toy/run-001")
    assert (choice.model, choice.source) == (MODEL_ALIASES["opus"], str(toys.store.folder))
    again = Toys(toys.folder)
    await again.create(agent="command", command=("true",), model=choice.text)
    assert parse_model("replay:run-002").model == MODEL_ALIASES["opus"]
    backend = make_backend(choice, ModelAccess())
    assert isinstance(backend, ReplayBackend)
    with pytest.raises(InvalidData, match="has no recording of 'toy-0001'"):
        backend.responder(GatewaySessionSpec(task_id="toy-0001"))
    assert not (toys.store.folder / "logs").exists(), "looking for a recording has made folders"


def test_the_environment_says_how_the_provider_is_reached(tmp_path: Path) -> None:
    access = ModelAccess.from_environment({"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"})
    made = make_backend(parse_model("sonnet"), access)
    assert isinstance(made, Upstream)
    assert (made.base_url, made.auth, made.secrets) == ("http://127.0.0.1:9", ProviderAuth.API_KEY, (KEY,))
    bearer = make_backend(parse_model("sonnet"), ModelAccess.from_environment({"ANTHROPIC_AUTH_TOKEN": KEY}))
    assert isinstance(bearer, Upstream)
    assert bearer.auth is ProviderAuth.BEARER
    own = make_backend(parse_model("sonnet"), ModelAccess.from_environment({"ANTHROPIC_API_KEY": KEY}, login=tmp_path))
    assert (own.passes_login, own.secrets) == (True, ())
    with pytest.raises(UsageError, match="there is no key for the model claude-sonnet-5"):
        make_backend(parse_model("sonnet"), ModelAccess.from_environment({}))
    proxied = ModelAccess.from_environment(
        {"ANTHROPIC_API_KEY": KEY, "https_proxy": "http://me:secret@p", "HOME": "/x"}
    )
    assert proxied.proxies == {"https_proxy": "http://me:secret@p"}
    assert "secret" not in repr(proxied)
    unusable = ModelAccess.from_environment({"ANTHROPIC_API_KEY": KEY, "HTTPS_PROXY": "socks5://p"})
    with pytest.raises(UsageError, match="the proxy's address"):
        make_backend(parse_model("sonnet"), unusable)


OPENAI = {"OPENAI_API_KEY": "dummy-openai-key"}
GEMINI = {"GEMINI_API_KEY": "dummy-gemini-key"}


def reached(environ: dict[str, str], model: str = "m", **urls: str) -> dict[str, tuple[str, ProviderAuth]]:
    """Where the requests of each provider's dialects go."""
    made = make_backend(parse_model(model, urls), ModelAccess.from_environment(environ, urls=urls))
    upstreams = made.upstreams if isinstance(made, Providers) else {"anthropic": made}
    return {name: (one.name, getattr(one, "auth")) for name, one in upstreams.items()}  # noqa: B009 - of a base class


def test_each_provider_has_its_key_and_its_address() -> None:
    found = reached({"ANTHROPIC_API_KEY": KEY, **OPENAI, **GEMINI})
    assert found == {
        "anthropic": ("https://api.anthropic.com", ProviderAuth.API_KEY),
        "openai": ("https://api.openai.com/v1", ProviderAuth.BEARER),
        "gemini": ("https://generativelanguage.googleapis.com", ProviderAuth.GOOGLE_API_KEY),
    }
    moved = {**OPENAI, "OPENAI_BASE_URL": "http://127.0.0.1:9/api"}
    assert reached(moved) == {"openai": ("http://127.0.0.1:9/api", ProviderAuth.BEARER)}
    assert reached(moved, openai="http://127.0.0.1:8") == {"openai": ("http://127.0.0.1:8/v1", ProviderAuth.BEARER)}


def test_a_server_of_ones_own_speaks_openais_dialects_and_may_want_no_key() -> None:
    assert reached({}, vllm="http://127.0.0.1:8000") == {"openai": ("http://127.0.0.1:8000/v1", ProviderAuth.NONE)}
    for name in ("anthropic", "openai", "gemini"):
        found = reached({}, **{name: "http://127.0.0.1:8000/v1"})
        assert found == {name: ("http://127.0.0.1:8000/v1", ProviderAuth.NONE)}
    keyed = {"OPEN_ROUTER_API_KEY": "dummy-router-key"}
    router = {"open-router": "https://example.org/api/v1"}
    assert reached(keyed, **router) == {"openai": ("https://example.org/api/v1", ProviderAuth.BEARER)}


def test_the_models_name_may_say_which_provider() -> None:
    urls = {"vllm": "http://127.0.0.1:1/v1", "other": "http://127.0.0.1:2/v1"}
    choice = parse_model("other/org/model", urls)
    assert (choice.model, choice.provider, choice.text) == ("org/model", "other", "other/org/model")
    assert parse_model("org/model", urls).model == "org/model"
    assert reached(OPENAI, "other/m", **urls)["openai"][0] == "http://127.0.0.1:2/v1"
    assert reached(OPENAI, "m", **urls)["openai"][0] == "https://api.openai.com/v1"
    with pytest.raises(UsageError, match="may be of any of the providers vllm, other"):
        reached({}, "m", **urls)


@pytest.mark.parametrize(
    ("name", "url"),
    [
        *(("vLLM", "http://x"), ("a", "localhost:8000"), ("a", ""), ("a", "ftp://x"), ("a", "http://me:key@x/v1")),
        *(
            ("a", "http://x/v1?api-version=1"),
            ("openai", "http://x/v1/chat/completions"),
            ("a", "http://x/v1/responses/"),
        ),
        *(("anthropic", "http://x/v1/messages"), ("gemini", "http://x/v1beta/models/m:generateContent")),
        *(("a", "http://x:port/v1"), ("a", "http://[x/v1"), ("a", "http://x:99999999/v1")),
    ],
)
def test_a_provider_that_is_none_is_refused(name: str, url: str) -> None:
    with pytest.raises(UsageError, match="--provider"):
        ModelAccess.from_environment({}, urls={name: url})


def asked(agent: str, model: str, *names: str) -> tuple[str, ...]:
    return asked_dialects(parse_model(model, names), agent_class(agent))


def test_a_model_of_a_provider_that_the_user_has_named_is_asked_in_that_providers_dialects() -> None:
    for model in ("claude-sonnet-4-5", "gemini-2.5-pro", "qwen3"):
        assert asked("pi", f"vllm/{model}", "vllm") == ("chat",)
        assert asked("pi", f"openai/{model}", "openai") == ("chat",)
        assert asked("pi", f"anthropic/{model}", "anthropic") == ("messages",)
    assert asked("pi", "vllm/gpt-5.5", "vllm") == ("responses",)
    assert asked("qwen", "gpt-5.5") == ("chat",)
    assert [asked("pi", model) for model in ("claude-sonnet-4-5", "gemini-2.5-pro")] == [("messages",), ("gemini",)]
    assert asked("command", "vllm/claude-sonnet-4-5", "vllm") == ()
    for agent in ("gemini", "claude_code"):
        with pytest.raises(UsageError, match="the provider vllm is asked in chat or responses"):
            asked(agent, "vllm/qwen3", "vllm")


def test_the_key_that_a_run_needs_is_that_of_its_models_dialect() -> None:
    access = ModelAccess.from_environment({"ANTHROPIC_API_KEY": KEY})
    choice = parse_model("gpt-5.5")
    with pytest.raises(UsageError, match="set OPENAI_API_KEY"):
        make_backend(choice, access, asked_dialects(choice, agent_class("pi")))


def test_an_agent_needs_the_key_of_its_own_dialect() -> None:
    with pytest.raises(UsageError, match="there is no key for the model gpt-x; set OPENAI_API_KEY"):
        make_backend(parse_model("gpt-x"), ModelAccess.from_environment({"ANTHROPIC_API_KEY": KEY}), ("responses",))
    made = make_backend(parse_model("gpt-x"), ModelAccess.from_environment(OPENAI), ("responses",))
    assert isinstance(made, Providers)
