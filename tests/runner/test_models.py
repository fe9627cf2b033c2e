from pathlib import Path

import pytest

from proctor.core.errors import InvalidData, UsageError
from proctor.core.models import ALIASES
from proctor.gateway import Auth, ReplayBackend, ScriptBackend, SessionSpec, Upstream
from proctor.runner.models import SCRIPTED_MODEL, Access, backend_for, choose_model
from sittings import Toys
from toy_provider import KEY


def test_a_short_name_is_one_model_and_any_other_name_is_itself() -> None:
    assert choose_model("haiku").model == ALIASES["haiku"]
    assert choose_model("claude-x:beta").model == "claude-x:beta"
    assert choose_model("haiku").text == ALIASES["haiku"]


def test_a_script_is_meant_from_where_it_was_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text("default: [{text: hi}]\n")
    choice = choose_model("script:s.yaml")
    assert (choice.model, choice.text) == (SCRIPTED_MODEL, f"script:{tmp_path / 's.yaml'}")
    monkeypatch.chdir("/")
    assert choose_model(choice.text) == choice
    assert isinstance(backend_for(choice, Access()), ScriptBackend)


@pytest.mark.parametrize("text", ["", "  ", "script:", "replay:"])
def test_a_model_that_names_nothing_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        choose_model(text)


async def test_a_recording_is_asked_for_by_the_model_that_it_was_made_with(
    toys: Toys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROCTOR_RESULTS", str(toys.folder / "results"))
    await toys.begin(agent="command", command=("true",), model="opus")
    choice = choose_model("replay:toy/run-001")
    assert (choice.model, choice.source) == (ALIASES["opus"], str(toys.store.folder))
    again = Toys(toys.folder)
    await again.begin(agent="command", command=("true",), model=choice.text)
    assert choose_model("replay:run-002").model == ALIASES["opus"]
    backend = backend_for(choice, Access())
    assert isinstance(backend, ReplayBackend)
    with pytest.raises(InvalidData, match="has no recording of 'toy-0001'"):
        backend.responder(SessionSpec(task_id="toy-0001"))
    assert not (toys.store.folder / "logs").exists(), "looking for a recording has made folders"


def test_the_environment_says_how_the_provider_is_reached(tmp_path: Path) -> None:
    access = Access.from_environment({"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"})
    made = backend_for(choose_model("sonnet"), access)
    assert isinstance(made, Upstream)
    assert (made.base_url, made.auth, made.secrets) == ("http://127.0.0.1:9", Auth.API_KEY, (KEY,))
    bearer = backend_for(choose_model("sonnet"), Access.from_environment({"ANTHROPIC_AUTH_TOKEN": KEY}))
    assert isinstance(bearer, Upstream)
    assert bearer.auth is Auth.BEARER
    own = backend_for(choose_model("sonnet"), Access.from_environment({"ANTHROPIC_API_KEY": KEY}, login=tmp_path))
    assert (own.passes_login, own.secrets) == (True, ())
    with pytest.raises(UsageError, match="there is no key for the model claude-sonnet-5"):
        backend_for(choose_model("sonnet"), Access.from_environment({}))
    proxied = Access.from_environment({"ANTHROPIC_API_KEY": KEY, "https_proxy": "http://me:secret@p", "HOME": "/x"})
    assert proxied.proxies == {"https_proxy": "http://me:secret@p"}
    assert "secret" not in repr(proxied)
    unusable = Access.from_environment({"ANTHROPIC_API_KEY": KEY, "HTTPS_PROXY": "socks5://p"})
    with pytest.raises(UsageError, match="the proxy's address"):
        backend_for(choose_model("sonnet"), unusable)
