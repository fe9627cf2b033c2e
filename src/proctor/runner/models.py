"""What `--model` can mean: a provider's model, a script, or a recording; and how each is reached."""

import hashlib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal, Self
from urllib.parse import urlsplit

from proctor.core.agent import Agent
from proctor.core.errors import InvalidData, UsageError
from proctor.core.model_aliases import MODEL_ALIASES
from proctor.core.record import Record
from proctor.core.request import RunRequest
from proctor.core.run import Trial
from proctor.core.suggestions import closest
from proctor.gateway import (
    GatewaySessionSpec,
    Prices,
    ProviderAuth,
    Providers,
    ReplayBackend,
    RetryPolicy,
    ScriptBackend,
    Secret,
    Upstream,
    read_script,
)
from proctor.gateway.backend import Backend
from proctor.gateway.dialects import DIALECTS, route
from proctor.gateway.litellm_prices import PACKAGE, installed_table
from proctor.gateway.prices import canonical_model
from proctor.gateway.providers import KEY_VARIABLES
from proctor.gateway.upstream import DEFAULT_BASE_URL
from proctor.results import RunStore, find_run
from proctor.results.attempt_record import RECORDING_FILE
from proctor.sandboxes.credentials import source_directory

OPENAI: Final = DIALECTS["chat"].provider
OPENAI_BASE_URL: Final = "https://api.openai.com/v1"
GEMINI_BASE_URL: Final = "https://generativelanguage.googleapis.com"
_MISTYPED: Final = 0.85  # how alike a name must be to one that is known
_PROVIDER_NAME: Final = re.compile(r"[a-z][a-z0-9_-]*")
# A response that stays silent for so long has broken off.
IDLE_SECONDS: Final = 600.0
# The model that an agent requests, where a script or a recording responds.
SCRIPTED_MODEL: Final = Agent.scripted_model


class ModelChoice(Record):
    """What responds to the agent's requests, and the name by which the agent requests it.

    Attributes:
        source: the script's file, or the folder of the recorded run.
        provider: the name of the provider, where the user has said it.
    """

    kind: Literal["provider", "script", "replay"]
    model: str
    source: str | None = None
    provider: str | None = None

    @property
    def text(self) -> str:
        """The same choice as it can be written down and read again from anywhere."""
        if self.source is not None:
            return f"{self.kind}:{self.source}"
        return self.model if self.provider is None else f"{self.provider}/{self.model}"


@dataclass(frozen=True, slots=True)
class ProviderAccess:
    """How one provider is reached; without a key it wants none. `versioned`: its address has the API's version."""

    base_url: str
    key: Secret | None = None
    auth: ProviderAuth = ProviderAuth.BEARER
    versioned: bool = False


@dataclass(frozen=True, slots=True)
class ModelAccess:
    """How the provider is reached, where the model is a provider's.

    Attributes:
        base_url: of the provider of the Messages API; `key` and `auth` likewise.
        is_open: that provider was named, and may want no key.
        login: a Claude Code configuration whose login passes through, instead of a key that the gateway adds.
        others: further providers, by name: ``openai``, ``gemini``, and those that the user has named.
        proxies: the environment's variables that name a proxy.
    """

    base_url: str = DEFAULT_BASE_URL
    key: Secret | None = None
    auth: ProviderAuth = ProviderAuth.API_KEY
    is_open: bool = False
    login: Path | None = None
    others: Mapping[str, ProviderAccess] = field(default_factory=dict)
    retry: RetryPolicy | None = None
    idle_seconds: float = IDLE_SECONDS
    proxies: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def from_environment(
        cls, environ: Mapping[str, str], *, login: Path | None = None, urls: Mapping[str, str] | None = None
    ) -> Self:
        """As the variables of the providers, and those that name a proxy, say.

        Args:
            environ: the variables.
            login: of the agent itself, to be used instead of Anthropic's key.
            urls: the addresses of providers, by name.

        Raises:
            UsageError: a name or an address of a provider is none.
        """
        urls = urls or {}
        for name, url in urls.items():
            _check_provider(name, url)
        base_url = urls.get("anthropic") or environ.get("ANTHROPIC_BASE_URL") or DEFAULT_BASE_URL
        proxies = {name: value for name, value in environ.items() if name.lower().endswith("_proxy")}
        is_open = "anthropic" in urls
        common = cls(base_url=base_url, is_open=is_open, others=_other_providers(environ, urls), proxies=proxies)
        if login is not None:
            return replace(common, auth=ProviderAuth.PASS_THROUGH, login=login)
        if key := environ.get("ANTHROPIC_API_KEY"):
            return replace(common, key=Secret(key))
        if token := environ.get("ANTHROPIC_AUTH_TOKEN"):
            return replace(common, key=Secret(token), auth=ProviderAuth.BEARER)
        return common


def _other_providers(environ: Mapping[str, str], urls: Mapping[str, str]) -> dict[str, ProviderAccess]:
    """OpenAI and Gemini where there is a key or an address, and the providers that the user has named."""
    found: dict[str, ProviderAccess] = {}
    openai_url = urls.get("openai") or environ.get("OPENAI_BASE_URL") or environ.get("OPENAI_API_BASE")
    openai_key = environ.get("OPENAI_API_KEY")
    if openai_key or urls.get("openai"):
        found["openai"] = _openai_access(openai_url or OPENAI_BASE_URL, openai_key)
    gemini_url = urls.get("gemini") or environ.get("GOOGLE_GEMINI_BASE_URL")
    gemini_key = environ.get("GEMINI_API_KEY") or environ.get("GOOGLE_API_KEY")
    if gemini_key or urls.get("gemini"):
        google = ProviderAuth.GOOGLE_API_KEY
        found["gemini"] = ProviderAccess(gemini_url or GEMINI_BASE_URL, _secret(gemini_key), google)
    for name, url in urls.items():
        if name not in KEY_VARIABLES:
            variable = re.sub(r"[^A-Z0-9]", "_", name.upper()) + "_API_KEY"
            found[name] = _openai_access(url, environ.get(variable))
    return found


def _secret(value: str | None) -> Secret | None:
    return Secret(value) if value else None


def _openai_access(url: str, key: str | None) -> ProviderAccess:
    """A server that speaks OpenAI's dialects; the path of its address is the API's version unless it has one."""
    has_path = "/" in url.partition("://")[2].rstrip("/")
    versioned = url if has_path else f"{url.rstrip('/')}/v1"
    return ProviderAccess(versioned, _secret(key), versioned=True)


def _check_provider(name: str, url: str) -> None:
    if not _PROVIDER_NAME.fullmatch(name):
        raise UsageError(f"--provider {name}={url}: a provider's name is of lower-case letters, digits, - and _")
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise UsageError(
            f"--provider {name}={url}: this is not the address of a server",
            fix="give one such as http://localhost:8000/v1",
        )
    if parts.query or parts.fragment or parts.username:
        raise UsageError(f"--provider {name}={url}: an address has no login, no ? and no # in it", fix="leave it out")
    if (found := route("POST", parts.path.rstrip("/"), "")) is not None:
        raise UsageError(
            f"--provider {name}={url}: this is the address of one kind of request in the dialect {found.dialect.name}",
            fix=f"leave out its end, which is added: {found.path}",
        )


def parse_model(text: str, providers: Collection[str] = ()) -> ModelChoice:
    """Read `--model`: a model id or short name, ``NAME/MODEL`` of a provider, ``script:FILE``, or ``replay:RUN``.

    `providers` are the names that the user has given.

    Raises:
        UsageError: it names nothing, or a run that is not there.
    """
    kind, separator, rest = text.partition(":")
    if separator and kind in {"script", "replay"}:
        if not rest:
            raise UsageError(
                f"--model {text} names nothing", fix=f"say which: {kind}:{'FILE' if kind == 'script' else 'RUN'}"
            )
        if kind == "script":
            return ModelChoice(kind="script", model=SCRIPTED_MODEL, source=str(Path(rest).absolute()))
        store = find_run(rest)
        config = store.config()
        source = str(store.folder)
        if config.model is None:
            return ModelChoice(kind="replay", model=SCRIPTED_MODEL, source=source)
        recorded = parse_model(config.model, config.providers)
        return ModelChoice(kind="replay", model=recorded.model, source=source, provider=recorded.provider)
    if not text.strip():
        raise UsageError("--model is empty", fix="give a model id, script:FILE or replay:RUN")
    name, separator, rest = text.partition("/")
    if separator and rest and name in providers:
        return ModelChoice(kind="provider", model=rest, provider=name)
    return ModelChoice(kind="provider", model=MODEL_ALIASES.get(text, text))


def requested_model(choice: ModelChoice, agent: Agent | type[Agent]) -> str:
    """The model that the agent asks for: without a provider, one that its program knows."""
    is_scripted = choice.kind != "provider" and choice.model == SCRIPTED_MODEL
    return agent.scripted_model if is_scripted else choice.model


def make_model_access(request: RunRequest, environ: Mapping[str, str]) -> ModelAccess:
    """How the provider is reached, as options and environment say.

    Raises:
        UsageError: a login is to be used, and there is none; or one is named that is not used.
    """
    if not request.own_login:
        if request.auth_from is not None:
            raise UsageError("--auth-from names a login that is not used", fix="give --own-login too")
        return ModelAccess.from_environment(environ, urls=request.providers)
    login = source_directory(request.auth_from)
    if login is None:
        raise UsageError("there is no login in the usual place", fix="say where it is with --auth-from DIR")
    return ModelAccess.from_environment(environ, login=login, urls=request.providers)


def load_prices(file: str | None) -> Prices:
    """The prices of tokens: the package's table, with those of a user's file.

    Raises:
        UsageError: the file cannot be read.
        InvalidData: it is no table of prices.
    """
    if file is None:
        return Prices.load()
    return Prices.load(installed_table().path if file == PACKAGE else Path(file))


def prices_version(file: str) -> str:
    """What identifies a table of prices: its name and digest.

    Raises:
        UsageError: the file cannot be read.
        InvalidData: it is no table of prices.
    """
    load_prices(file)
    table = installed_table() if file == PACKAGE else None
    path, name = (Path(file), Path(file).name) if table is None else (table.path, f"litellm {table.version}")
    return f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"


def check_priced(choice: ModelChoice, request: RunRequest, prices: Prices) -> None:
    """See that a budget can be kept: what has no price would be refused at the first request.

    Raises:
        UsageError: it cannot.
    """
    limited = request.max_cost is not None or request.max_cost_per_task is not None
    if limited and choice.kind == "provider" and not prices.has_price(choice.model):
        raise UsageError(
            f"no price is known for the model {choice.model}, so no budget can be kept",
            fix="give a table with its price as --prices FILE, or leave --max-cost and --max-cost-per-task out",
        )


def check_model_name(choice: ModelChoice, prices: Prices) -> None:
    """See that a model's name is not mistyped, as far as the table of prices can tell.

    A name that has other digits than a known one, or something added, is another model's.

    Raises:
        UsageError: it is a letter or two away from a name that is known.
    """
    if choice.kind != "provider" or choice.provider is not None or prices.has_price(choice.model):
        return
    own = _letters(choice.model)
    known = {_letters(name): name for name in (*prices.models, *MODEL_ALIASES)}
    near = closest(own, known, cutoff=_MISTYPED)
    if near is not None and not own.startswith(near) and not near.startswith(own):
        raise UsageError(
            f"no model is known as {choice.model!r}",
            fix=f"did you mean {known[near]!r}? If it is called so, give its price as --prices FILE",
        )


def _letters(model: str) -> str:
    return re.sub(r"[^a-z]", "", canonical_model(model))


def spoken_dialects(choice: ModelChoice) -> tuple[str, ...]:
    """The dialects of the model's provider, where the user has named it; a server of the user's speaks OpenAI's."""
    if choice.provider is None:
        return ()
    own = choice.provider if choice.provider in KEY_VARIABLES else OPENAI
    return tuple(name for name, dialect in DIALECTS.items() if dialect.provider == own)


def asked_dialects(choice: ModelChoice, agent: Agent | type[Agent]) -> tuple[str, ...]:
    """In which dialects an agent may ask this model; none where that is not known.

    Raises:
        UsageError: in none that the model's provider speaks.
    """
    spoken = spoken_dialects(choice)
    found = agent.dialects_for(choice.model, spoken or tuple(DIALECTS))
    if agent.dialects and not found:
        raise UsageError(
            f"the agent {agent.name} asks its model in {' or '.join(agent.dialects)}, "
            f"and the provider {choice.provider} is asked in {' or '.join(spoken)}",
            fix="choose another agent, or another provider",
        )
    return found


def make_backend(choice: ModelChoice, access: ModelAccess, dialects: Sequence[str] = ()) -> Backend:
    """What responds, ready to be started; `dialects` are those of the agent, where they are known.

    Raises:
        UsageError: a provider's model is wanted, and there is neither a key nor a login; the script cannot be read.
        InvalidData: the script is broken.
    """
    match choice.kind:
        case "script":
            return ScriptBackend(read_script(Path(choice.source or "")))
        case "replay":
            store = RunStore(Path(choice.source or ""))
            return ReplayBackend(_recording_finder(store), name=f"replay of {store.folder.parent.name}/{store.run_id}")
        case "provider":
            return _provider_backend(choice, access, dialects)


def _provider_backend(choice: ModelChoice, access: ModelAccess, dialects: Sequence[str]) -> Backend:
    upstreams = {name: _upstream(one, access) for name, one in _chosen_providers(choice, access).items()}
    wanted = {DIALECTS[name].provider for name in dialects} or set(KEY_VARIABLES)
    if not wanted & upstreams.keys():
        variables = " or ".join(KEY_VARIABLES[name] for name in KEY_VARIABLES if name in wanted)
        raise UsageError(
            f"there is no key for the model {choice.model}",
            fix=f"set {variables}, give --own-login or --provider NAME=URL, or use --model script:FILE",
        )
    if upstreams.keys() == {"anthropic"}:
        return upstreams["anthropic"]
    return Providers(upstreams)


def _chosen_providers(choice: ModelChoice, access: ModelAccess) -> dict[str, ProviderAccess]:
    """The providers that a run uses, by the names that dialects have for them."""
    found = {name: access.others[name] for name in ("openai", "gemini") if name in access.others}
    if access.key is not None or access.login is not None or access.is_open:
        found["anthropic"] = ProviderAccess(access.base_url, access.key, access.auth)
    named = [name for name in access.others if name not in KEY_VARIABLES]
    if choice.provider in named:
        found["openai"] = access.others[choice.provider]
    elif choice.provider is None and named and "openai" not in found:
        if len(named) > 1:
            raise UsageError(
                f"the model {choice.model} may be of any of the providers {', '.join(named)}",
                fix=f"say which: --model {named[0]}/{choice.model}",
            )
        found["openai"] = access.others[named[0]]
    return found


def _upstream(one: ProviderAccess, access: ModelAccess) -> Upstream:
    is_open = one.key is None and one.auth is not ProviderAuth.PASS_THROUGH
    return Upstream(
        one.base_url,
        key=one.key,
        auth=ProviderAuth.NONE if is_open else one.auth,
        versioned=one.versioned,
        retry=access.retry,
        idle_seconds=access.idle_seconds,
        proxies=access.proxies,
    )


def check_recorded(choice: ModelChoice, trials: Sequence[Trial]) -> None:
    """See that a run which is to be replayed has recordings of all trials.

    Raises:
        UsageError: it has not.
    """
    if choice.kind != "replay":
        return
    store = RunStore(Path(choice.source or ""))
    missing = [trial for trial in trials if not _recording_files(store, trial.task_id, trial.number)]
    if missing:
        first = missing[0]
        which = repr(first.task_id) if first.number == 1 else f"trial {first.number} of {first.task_id!r}"
        raise UsageError(
            f"the run has no recording of {len(missing)} of the {len(trials)} trials, such as {which}",
            where=store.folder,
            fix="choose tasks that it has with --task, or leave out others with --exclude",
        )


def _recording_files(store: RunStore, task_id: str, trial: int) -> list[Path]:
    """The recordings of a trial's attempts, in their order."""
    found = store.logs(task_id, trial).glob(f"attempt-*/{RECORDING_FILE}")
    return sorted(found, key=lambda file: int(file.parent.name.split("-")[1]))


def replayed_recording(choice: ModelChoice, trial: Trial) -> Path:
    """The recording that responds to the agent of a trial, where a run is replayed."""
    find = _recording_finder(RunStore(Path(choice.source or "")))
    return find(GatewaySessionSpec(task_id=trial.task_id, values={"trial": str(trial.number)}))


def _recording_finder(store: RunStore) -> Callable[[GatewaySessionSpec], Path]:
    """The recording of the attempt that counted, or of the last one that there was."""

    def find(spec: GatewaySessionSpec) -> Path:
        found = _recording_files(store, spec.task_id, int(spec.values.get("trial", "1")))
        if not found:
            raise InvalidData(f"the run {store.run_id} has no recording of {spec.task_id!r}", where=store.folder)
        return found[-1]

    return find
