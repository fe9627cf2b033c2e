"""The file of a sweep (TOML): which configurations, over which tasks, within which limits, and what will count.

Reading is pure but for the file itself. Every problem of a file is found in one go, each with its place in it.
"""

import difflib
import itertools
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import field

from proctor.analysis import parse_rule
from proctor.core.briefing import Briefing, read_prompt, read_tools
from proctor.core.environment import Limits, Network
from proctor.core.errors import UsageError
from proctor.core.files import read_given
from proctor.core.record import Record
from proctor.core.run import Budget, Mode
from proctor.runner.plan import AGENTS, PRESETS, Asked
from proctor.runner.selection import Selection, read_exclusions
from proctor.runner.sweep_values import SETTINGS, SHARED, Bad, Check, variable

_LONGEST_VALUE: Final = 40
# A pod's agents have no turns, and are told what their roles say.
_NOT_OF_PODS: Final = ("max_turns", "system_prompt", "append_system_prompt", "allowed_tools")
_BY_MODE: Final = {mode: (AGENTS[mode], PRESETS[mode]) for mode in Mode}


class Settings(Record):
    """What may differ between the configurations of a sweep; None where nothing is said."""

    mode: str | None = None
    agent: str | None = None
    command: tuple[str, ...] | None = None
    model: str | None = None
    preset: str | None = None
    pod_template: str | None = None
    variables: dict[str, str] = field(default_factory=dict)
    attempts: int | None = None
    timeout: float | None = None
    max_turns: int | None = None
    system_prompt: str | None = None
    append_system_prompt: str | None = None
    allowed_tools: str | None = None
    agent_env: dict[str, str] | None = None


class Configuration(Record):
    """One run of a sweep, by its label."""

    label: str
    asked: Asked


class SweepFile(Record):
    """What a file asks for.

    Attributes:
        text: the file itself.
        baseline: the label of the configuration that the others are held against.
        rule: what counts as a difference, in the words of `proctor.analysis.gate`.
    """

    name: str
    text: str
    benchmark: str | None
    suite: str | None
    split: str | None
    selection: Selection
    configurations: tuple[Configuration, ...]
    baseline: str
    rule: str | None


def read_sweep(file: Path) -> SweepFile:
    """Read a sweep's file. Paths in it are relative to it.

    Raises:
        UsageError: it cannot be read, or something in it is wrong; lists everything that is.
    """
    text = read_given(file, "the sweep")
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"the sweep is no TOML: {error}", where=file) from error
    reader = _Reader(document, file.absolute().parent)
    sweep = reader.read(text, file.stem)
    if sweep is None:
        count = len(reader.problems)
        raise UsageError(
            f"the sweep has {count} problem{'s' if count > 1 else ''}", where=file, details=tuple(reader.problems)
        )
    return sweep


class _Wanted(NamedTuple):
    """A configuration as it is written: its label, where it has one of its own, its settings, and where it stands."""

    label: str | None
    settings: Settings
    place: str


class _Reader:
    """Goes through one document; whatever is wrong is noted, and the rest is looked at all the same."""

    def __init__(self, document: Mapping[str, Any], folder: Path) -> None:
        self.problems: list[str] = []
        self._document = document
        self._folder = folder

    def read(self, text: str, stem: str) -> SweepFile | None:
        """The sweep; None when there are problems."""
        document = self._document
        self._unknown(document, (*SHARED, *SETTINGS, "variables", "grid", "run"), "")
        shared = {name: self._take(check, document[name], name) for name, check in SHARED.items() if name in document}
        if ("benchmark" in document) == ("suite" in document):
            self._note("benchmark", "say which benchmark: benchmark or suite, not both")
        defaults = self._settings({name: document[name] for name in document if name in (*SETTINGS, "variables")}, "")
        wanted = [*self._grid(defaults), *self._runs(defaults)]
        self._unused(wanted)
        configurations = self._configurations(wanted, shared)
        self._rule(shared.get("rule"))
        baseline = shared.get("baseline") or (configurations[0].label if configurations else "")
        labels = [configuration.label for configuration in configurations]
        if not labels and not self.problems:
            self._note("grid", "there is nothing to run: give [grid] or [[run]]")
        elif labels and baseline not in labels:
            self._note("baseline", f"no configuration is called {baseline!r}; there are: {'; '.join(labels)}")
        exclude = shared.get("exclude")
        excluded = self._take(lambda it: read_exclusions(self._folder / str(it)), exclude, "exclude") if exclude else ()
        if self.problems:
            return None
        suite = shared.get("suite")
        return SweepFile(
            name=shared.get("name", stem),
            text=text,
            benchmark=shared.get("benchmark"),
            suite=self._path(suite) if suite else None,
            split=shared.get("split"),
            selection=Selection(
                ids=shared.get("tasks", ()),
                filter=shared.get("filter"),
                tags=shared.get("tags", ()),
                excluded=excluded,
                limit=shared.get("limit"),
            ),
            configurations=tuple(configurations),
            baseline=baseline,
            rule=shared.get("rule"),
        )

    def _note(self, place: str, what: str) -> None:
        self.problems.append(f"{place}: {what}" if place else what)

    def _take(self, check: Check, value: object, place: str) -> Any:
        try:
            return check(value)
        except (Bad, UsageError) as bad:
            self._note(place, f"{bad}, not {value!r}" if isinstance(bad, Bad) else str(bad))
            return None

    def _unknown(self, table: Mapping[str, Any], known: Sequence[str], place: str) -> None:
        for name in table:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                self._note(f"{place}{name}", f"there is no such key{f'; did you mean {near[0]}?' if near else ''}")

    def _settings(self, table: Mapping[str, Any], place: str) -> Settings:
        found = {
            name: self._take(check, table[name], f"{place}{name}") for name, check in SETTINGS.items() if name in table
        }
        return Settings(**found, variables=self._variables(table.get("variables", {}), place))

    def _variables(self, table: object, place: str) -> dict[str, str]:
        if not isinstance(table, dict):
            self._note(f"{place}variables", "must be a table")
            return {}
        values = {name: self._take(variable, value, f"{place}variables.{name}") for name, value in table.items()}
        return {name: value for name, value in values.items() if value is not None}

    def _grid(self, defaults: Settings) -> Iterator[_Wanted]:
        """Every combination, in the order of the file, the last axis fastest."""
        grid = self._document.get("grid", {})
        if not isinstance(grid, dict):
            self._note("grid", "must be a table")
            return
        self._unknown(grid, (*SETTINGS, "variables"), "grid.")
        axes: list[list[tuple[str, Any]]] = []
        for name, values in grid.items():
            if name in SETTINGS:
                axes.append(self._axis(name, values, SETTINGS[name], f"grid.{name}"))
            elif name == "variables" and isinstance(values, dict):
                axes += [
                    self._axis(f"variables.{key}", some, variable, f"grid.variables.{key}")
                    for key, some in values.items()
                ]
            elif name == "variables":
                self._note("grid.variables", "must be a table of lists")
        if not axes or not all(axes):
            return
        for combination in itertools.product(*axes):
            yield _Wanted(None, _with(defaults, dict(combination)), "grid")

    def _axis(self, name: str, values: object, check: Check, place: str) -> list[tuple[str, Any]]:
        if not isinstance(values, list) or not values:
            self._note(place, "must be a list of at least one value")
            return []
        taken = [self._take(check, value, f"{place}[{number}]") for number, value in enumerate(values)]
        if len({msgspec.json.encode(value) for value in taken if value is not None}) < len(taken) and None not in taken:
            self._note(place, "has a value twice")
        return [(name, value) for value in taken if value is not None]

    def _runs(self, defaults: Settings) -> Iterator[_Wanted]:
        runs = self._document.get("run", [])
        if not isinstance(runs, list) or not all(isinstance(run, dict) for run in runs):
            self._note("run", "must be a list of tables: [[run]]")
            return
        for number, run in enumerate(runs):
            place = f"run[{number}]."
            self._unknown(run, ("name", *SETTINGS, "variables"), place)
            if "name" not in run:
                self._note(f"{place}name", "is missing: what is this run to be called?")
            label = self._take(SHARED["name"], run.get("name", "?"), f"{place}name")
            own = self._settings({key: value for key, value in run.items() if key != "name"}, place)
            changes = {name: value for name in SETTINGS if (value := getattr(own, name)) is not None}
            changes |= {f"variables.{name}": value for name, value in own.variables.items()}
            yield _Wanted(label, _with(defaults, changes), place.rstrip("."))

    def _unused(self, wanted: Sequence[_Wanted]) -> None:
        """A setting that is given and that no configuration can use is a mistake."""
        everything = [one.settings for one in wanted]
        for name, needs, uses in (
            ("pod_template", 'mode = "h2"', _is_pod),
            ("variables", 'mode = "h2"', _is_pod),
            ("command", 'agent = "command"', _is_command),
            *((name, 'mode = "baseline"', lambda settings: not _is_pod(settings)) for name in _NOT_OF_PODS),
        ):
            given = [settings for settings in everything if getattr(settings, name)]
            if given and not any(map(uses, given)):
                self._note(name, f"is given, and no configuration uses it: it is for {needs}")

    def _configurations(self, wanted: Sequence[_Wanted], shared: Mapping[str, Any]) -> list[Configuration]:
        effective = [one._replace(settings=_effective(one.settings)) for one in wanted]
        varied = _varied([one.settings for one in effective if one.label is None])
        found: dict[str, Settings] = {}
        for label, settings, place in effective:
            name = label or _label(settings, varied)
            if found.get(name) == settings and label is None:
                continue  # they differed in what this one does not use
            if name in found:
                self._note(place, f"another configuration is called {name!r} too")
            elif settings in found.values():
                twin = next(other for other, same in found.items() if same == settings)
                self._note(place, f"{name!r} is the same as {twin!r}")
            found[name] = settings
        return [Configuration(label=name, asked=self._asked(settings, shared)) for name, settings in found.items()]

    def _asked(self, settings: Settings, shared: Mapping[str, Any]) -> Asked:
        network = shared.get("network")
        return Asked(
            mode=Mode(settings.mode or Mode.BASELINE),
            agent=settings.agent or "",
            command=settings.command or (),
            briefing=self._briefing(settings),
            model=self._model(settings.model),
            preset=self._named_or_there(settings.preset or ""),
            pod_template=self._named_or_there(settings.pod_template) if settings.pod_template else None,
            variables=settings.variables,
            runner=shared.get("runner") or "local",
            image=shared.get("image"),
            isolation=shared.get("isolation") is not False,
            network=Network(network) if network else None,
            samples=settings.attempts or 1,
            concurrency=shared.get("concurrency") or 1,
            grade_concurrency=shared.get("grade_concurrency"),
            limits=Limits(wall_seconds=settings.timeout),
            max_turns=settings.max_turns,
            budget=Budget(run_usd=shared.get("max_cost"), task_usd=shared.get("max_cost_per_task")),
            shuffle=shared.get("shuffle"),
        )

    def _briefing(self, settings: Settings) -> Briefing:
        return Briefing(
            system_prompt=self._prompt("system_prompt", settings.system_prompt),
            append_system_prompt=self._prompt("append_system_prompt", settings.append_system_prompt),
            allowed_tools=read_tools(settings.allowed_tools) if settings.allowed_tools else (),
            env=settings.agent_env or {},
        )

    def _prompt(self, name: str, written: str | None) -> str | None:
        return self._take(lambda text: read_prompt(str(text), self._folder), written, name) if written else None

    def _model(self, model: str | None) -> str | None:
        if model is not None and model.startswith("script:"):
            return f"script:{self._folder / Path(model.removeprefix('script:')).expanduser()}"
        return model

    def _named_or_there(self, written: str) -> str:
        """A preset or a template: by its name, or the folder or file that it is, which has a slash or a suffix."""
        return self._path(written) if "/" in written or Path(written).suffix else written

    def _path(self, written: str) -> str:
        """A path relative to the file. What is not there may be a name, and is for others to judge."""
        path = self._folder / Path(written).expanduser()
        return str(path) if path.exists() or "/" in written else written

    def _rule(self, rule: str | None) -> None:
        if rule is not None:
            self._take(lambda _: parse_rule(rule), rule, "rule")


def _with(defaults: Settings, changes: Mapping[str, Any]) -> Settings:
    plain = {name: value for name, value in changes.items() if not name.startswith("variables.")}
    more = {name.removeprefix("variables."): value for name, value in changes.items() if name not in plain}
    return msgspec.structs.replace(defaults, **plain, variables={**defaults.variables, **more})


def _effective(settings: Settings) -> Settings:
    """The same with what a mode brings, and without what it does not use."""
    agent, preset = _BY_MODE[Mode(settings.mode or Mode.BASELINE)]
    full = msgspec.structs.replace(
        settings,
        mode=settings.mode or Mode.BASELINE.value,
        agent=settings.agent or agent,
        preset=settings.preset or preset,
        attempts=settings.attempts or 1,
    )
    unused: dict[str, Any] = {"pod_template": None, "variables": {}}
    if _is_pod(full):
        unused = dict.fromkeys(_NOT_OF_PODS)
    full = msgspec.structs.replace(full, **unused)
    return full if _is_command(full) else msgspec.structs.replace(full, command=None)


def _is_pod(settings: Settings) -> bool:
    return settings.mode == Mode.H2.value


def _is_command(settings: Settings) -> bool:
    return settings.agent == "command"


def _flat(settings: Settings) -> dict[str, Any]:
    plain = {name: getattr(settings, name) for name in SETTINGS}
    return {**plain, **settings.variables}


def _varied(settings: Sequence[Settings]) -> list[str]:
    """The settings in which configurations differ: what their labels are made of."""
    flat = [_flat(one) for one in settings]
    names = dict.fromkeys(name for one in flat for name in one)
    # What a mode brings by itself says nothing that the mode does not.
    return [name for name in names if len({msgspec.json.encode(one.get(name)) for one in flat}) > 1]


def _label(settings: Settings, varied: Sequence[str]) -> str:
    flat = _flat(settings)
    brought = _BY_MODE[Mode(settings.mode or Mode.BASELINE)]
    parts = []
    for name in varied:
        value = flat.get(name)
        if value is None or (name in {"agent", "preset"} and "mode" in varied and value in brought):
            continue
        parts.append(f"{name}={_short(value)}")
    return " ".join(parts) or "run"


def _short(value: object) -> str:
    if isinstance(value, tuple):
        text = shlex.join(value)
    elif isinstance(value, dict):
        text = " ".join(f"{name}={one}" for name, one in value.items())
    else:
        text = str(value) or "none"
    kind, colon, rest = text.partition(":")
    if colon and kind in {"script", "replay"}:
        text = f"{kind}:{Path(rest).name}"
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"
