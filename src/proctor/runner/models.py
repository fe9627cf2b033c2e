"""What `--model` can mean: a provider's model, a script, or a recording; and how each is reached."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, Self

from proctor.core.agent import MODEL_ALIASES
from proctor.core.errors import InvalidData, UsageError
from proctor.core.record import Record
from proctor.core.request import RunRequest
from proctor.core.run import Trial
from proctor.gateway import (
    GatewaySessionSpec,
    Prices,
    ProviderAuth,
    ReplayBackend,
    RetryPolicy,
    ScriptBackend,
    Secret,
    Upstream,
    read_script,
)
from proctor.gateway.backend import Backend
from proctor.gateway.upstream import DEFAULT_BASE_URL
from proctor.results import RunStore, find_run
from proctor.results.attempt_record import RECORDING_FILE
from proctor.sandboxes.credentials import source_directory

# A response that stays silent for so long has broken off.
IDLE_SECONDS: Final = 600.0
# The model that an agent requests, where a script or a recording responds.
SCRIPTED_MODEL: Final = "claude-sonnet-4-5"


class ModelChoice(Record):
    """What responds to the agent's requests, and the name by which the agent requests it.

    Attributes:
        source: the script's file, or the folder of the recorded run.
    """

    kind: Literal["provider", "script", "replay"]
    model: str
    source: str | None = None

    @property
    def text(self) -> str:
        """The same choice as it can be written down and read again from anywhere."""
        return self.model if self.source is None else f"{self.kind}:{self.source}"


@dataclass(frozen=True, slots=True)
class ModelAccess:
    """How the provider is reached, where the model is a provider's.

    Attributes:
        login: a Claude Code configuration whose login passes through, instead of a key that the gateway adds.
        proxies: the environment's variables that name a proxy.
    """

    base_url: str = DEFAULT_BASE_URL
    key: Secret | None = None
    auth: ProviderAuth = ProviderAuth.API_KEY
    login: Path | None = None
    retry: RetryPolicy | None = None
    idle_seconds: float = IDLE_SECONDS
    proxies: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str], *, login: Path | None = None) -> Self:
        """As ANTHROPIC_BASE_URL, ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN, and those that name a proxy say."""
        base_url = environ.get("ANTHROPIC_BASE_URL") or DEFAULT_BASE_URL
        proxies = {name: value for name, value in environ.items() if name.lower().endswith("_proxy")}
        if login is not None:
            return cls(base_url=base_url, auth=ProviderAuth.PASS_THROUGH, login=login, proxies=proxies)
        if key := environ.get("ANTHROPIC_API_KEY"):
            return cls(base_url=base_url, key=Secret(key), proxies=proxies)
        if token := environ.get("ANTHROPIC_AUTH_TOKEN"):
            return cls(base_url=base_url, key=Secret(token), auth=ProviderAuth.BEARER, proxies=proxies)
        return cls(base_url=base_url)


def parse_model(text: str) -> ModelChoice:
    """Read `--model`: a model id or short name, ``script:FILE``, or ``replay:RUN``.

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
        recorded = store.config().model
        model = parse_model(recorded).model if recorded is not None else SCRIPTED_MODEL
        return ModelChoice(kind="replay", model=model, source=str(store.folder))
    if not text.strip():
        raise UsageError("--model is empty", fix="give a model id, script:FILE or replay:RUN")
    return ModelChoice(kind="provider", model=MODEL_ALIASES.get(text, text))


def make_model_access(request: RunRequest, environ: Mapping[str, str]) -> ModelAccess:
    """How the provider is reached, as options and environment say.

    Raises:
        UsageError: a login is to be used, and there is none; or one is named that is not used.
    """
    if not request.own_login:
        if request.auth_from is not None:
            raise UsageError("--auth-from names a login that is not used", fix="give --own-login too")
        return ModelAccess.from_environment(environ)
    login = source_directory(request.auth_from)
    if login is None:
        raise UsageError("there is no login in the usual place", fix="say where it is with --auth-from DIR")
    return ModelAccess.from_environment(environ, login=login)


def load_prices(file: str | None) -> Prices:
    """The prices of tokens: the package's table, with those of a user's file.

    Raises:
        UsageError: the file cannot be read.
        InvalidData: it is no table of prices.
    """
    return Prices.load() if file is None else Prices.load(Path(file))


def prices_version(file: str) -> str:
    """What identifies a table of prices: its name and digest.

    Raises:
        UsageError: the file cannot be read.
        InvalidData: it is no table of prices.
    """
    load_prices(file)
    path = Path(file)
    return f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"


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


def make_backend(choice: ModelChoice, access: ModelAccess) -> Backend:
    """What responds, ready to be started.

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
            return _provider(choice, access)


def _provider(choice: ModelChoice, access: ModelAccess) -> Upstream:
    if access.key is None and access.login is None:
        raise UsageError(
            f"there is no key for the model {choice.model}",
            fix="set ANTHROPIC_API_KEY, give --own-login, or use --model script:FILE",
        )
    return Upstream(
        access.base_url,
        key=access.key,
        auth=access.auth,
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


def _recording_finder(store: RunStore) -> Callable[[GatewaySessionSpec], Path]:
    """The recording of the attempt that counted, or of the last one that there was."""

    def find(spec: GatewaySessionSpec) -> Path:
        found = _recording_files(store, spec.task_id, int(spec.values.get("trial", "1")))
        if not found:
            raise InvalidData(f"the run {store.run_id} has no recording of {spec.task_id!r}", where=store.folder)
        return found[-1]

    return find
