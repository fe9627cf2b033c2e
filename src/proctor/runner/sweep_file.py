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
from proctor.core.agent_options import AgentOptions, read_prompt, read_tools
from proctor.core.environment import Limits, Network
from proctor.core.errors import UsageError
from proctor.core.files import read_user_file
from proctor.core.record import Record
from proctor.core.run import Budget, Mode
from proctor.runner.request import DEFAULT_AGENTS, DEFAULT_PRESETS, RunRequest
from proctor.runner.selection import Selection, read_exclusions
from proctor.runner.sweep_values import (
    CONFIGURATION_KEYS,
    SHARED_KEYS,
    InvalidSweepValue,
    ValueCheck,
    template_variable,
)

_MAX_VALUE_LENGTH: Final = 40
# A pod's agents have no turns, and are told what their roles say.
_NOT_FOR_PODS: Final = ("max_turns", "system_prompt", "append_system_prompt", "allowed_tools")
_MODE_DEFAULTS: Final = {mode: (DEFAULT_AGENTS[mode], DEFAULT_PRESETS[mode]) for mode in Mode}


class SweepSettings(Record):
    """What may differ between the configurations of a sweep; None where nothing is said."""

    mode: str | None = None
    agent: str | None = None
    command: tuple[str, ...] | None = None
    model: str | None = None
    preset: str | None = None
    pod_template: str | None = None
    variables: dict[str, str] = field(default_factory=dict)
    trials: int | None = None
    timeout: float | None = None
    max_turns: int | None = None
    system_prompt: str | None = None
    append_system_prompt: str | None = None
    allowed_tools: str | None = None
    agent_env: dict[str, str] | None = None


class SweepConfiguration(Record):
    """One run of a sweep, by its label."""

    label: str
    request: RunRequest


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
    configurations: tuple[SweepConfiguration, ...]
    reference: str
    rule: str | None


def read_sweep_file(file: Path) -> SweepFile:
    """Read a sweep's file. Paths in it are relative to it.

    Raises:
        UsageError: it cannot be read, or something in it is wrong; lists everything that is.
    """
    text = read_user_file(file, "the sweep")
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"the sweep is no TOML: {error}", where=file) from error
    reader = _SweepFileReader(document, file.absolute().parent)
    sweep = reader.read(text, file.stem)
    if sweep is None:
        count = len(reader.problems)
        raise UsageError(
            f"the sweep has {count} problem{'s' if count > 1 else ''}", where=file, details=tuple(reader.problems)
        )
    return sweep


class _DraftConfiguration(NamedTuple):
    """A configuration as it is written: its label, where it has one of its own, its settings, and where it stands."""

    label: str | None
    settings: SweepSettings
    location: str


class _SweepFileReader:
    """Goes through one document; whatever is wrong is noted, and the rest is looked at all the same."""

    def __init__(self, document: Mapping[str, Any], folder: Path) -> None:
        self.problems: list[str] = []
        self._document = document
        self._folder = folder

    def read(self, text: str, stem: str) -> SweepFile | None:
        """The sweep; None when there are problems."""
        document = self._document
        self._check_unknown_keys(document, (*SHARED_KEYS, *CONFIGURATION_KEYS, "variables", "grid", "run"), "")
        shared = {
            name: self._check_value(check, document[name], name)
            for name, check in SHARED_KEYS.items()
            if name in document
        }
        if ("benchmark" in document) == ("suite" in document):
            self._add_problem("benchmark", "say which benchmark: benchmark or suite, not both")
        defaults = self._read_settings(
            {name: document[name] for name in document if name in (*CONFIGURATION_KEYS, "variables")}, ""
        )
        wanted = [*self._read_grid(defaults), *self._read_runs(defaults)]
        self._check_unused_settings(wanted)
        configurations = self._build_configurations(wanted, shared)
        self._check_rule(shared.get("rule"))
        baseline = shared.get("baseline") or (configurations[0].label if configurations else "")
        labels = [configuration.label for configuration in configurations]
        if not labels and not self.problems:
            self._add_problem("grid", "there is nothing to run: give [grid] or [[run]]")
        elif labels and baseline not in labels:
            self._add_problem("baseline", f"no configuration is called {baseline!r}; there are: {'; '.join(labels)}")
        exclude = shared.get("exclude")
        excluded = (
            self._check_value(lambda it: read_exclusions(self._folder / str(it)), exclude, "exclude") if exclude else ()
        )
        if self.problems:
            return None
        suite = shared.get("suite")
        return SweepFile(
            name=shared.get("name", stem),
            text=text,
            benchmark=shared.get("benchmark"),
            suite=self._resolve_path(suite) if suite else None,
            split=shared.get("split"),
            selection=Selection(
                ids=shared.get("tasks", ()),
                filter=shared.get("filter"),
                tags=shared.get("tags", ()),
                excluded=excluded,
                limit=shared.get("limit"),
            ),
            configurations=tuple(configurations),
            reference=baseline,
            rule=shared.get("rule"),
        )

    def _add_problem(self, location: str, what: str) -> None:
        self.problems.append(f"{location}: {what}" if location else what)

    def _check_value(self, check: ValueCheck, value: object, location: str) -> Any:
        try:
            return check(value)
        except (InvalidSweepValue, UsageError) as bad:
            self._add_problem(location, f"{bad}, not {value!r}" if isinstance(bad, InvalidSweepValue) else str(bad))
            return None

    def _check_unknown_keys(self, table: Mapping[str, Any], known: Sequence[str], location: str) -> None:
        for name in table:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                self._add_problem(
                    f"{location}{name}", f"there is no such key{f'; did you mean {near[0]}?' if near else ''}"
                )

    def _read_settings(self, table: Mapping[str, Any], location: str) -> SweepSettings:
        found = {
            name: self._check_value(check, table[name], f"{location}{name}")
            for name, check in CONFIGURATION_KEYS.items()
            if name in table
        }
        return SweepSettings(**found, variables=self._read_variables(table.get("variables", {}), location))

    def _read_variables(self, table: object, location: str) -> dict[str, str]:
        if not isinstance(table, dict):
            self._add_problem(f"{location}variables", "must be a table")
            return {}
        values = {
            name: self._check_value(template_variable, value, f"{location}variables.{name}")
            for name, value in table.items()
        }
        return {name: value for name, value in values.items() if value is not None}

    def _read_grid(self, defaults: SweepSettings) -> Iterator[_DraftConfiguration]:
        """Every combination, in the order of the file, the last axis fastest."""
        grid = self._document.get("grid", {})
        if not isinstance(grid, dict):
            self._add_problem("grid", "must be a table")
            return
        self._check_unknown_keys(grid, (*CONFIGURATION_KEYS, "variables"), "grid.")
        axes: list[list[tuple[str, Any]]] = []
        for name, values in grid.items():
            if name in CONFIGURATION_KEYS:
                axes.append(self._read_axis(name, values, CONFIGURATION_KEYS[name], f"grid.{name}"))
            elif name == "variables" and isinstance(values, dict):
                axes += [
                    self._read_axis(f"variables.{key}", some, template_variable, f"grid.variables.{key}")
                    for key, some in values.items()
                ]
            elif name == "variables":
                self._add_problem("grid.variables", "must be a table of lists")
        if not axes or not all(axes):
            return
        for combination in itertools.product(*axes):
            yield _DraftConfiguration(None, _merge(defaults, dict(combination)), "grid")

    def _read_axis(self, name: str, values: object, check: ValueCheck, location: str) -> list[tuple[str, Any]]:
        if not isinstance(values, list) or not values:
            self._add_problem(location, "must be a list of at least one value")
            return []
        taken = [self._check_value(check, value, f"{location}[{number}]") for number, value in enumerate(values)]
        if len({msgspec.json.encode(value) for value in taken if value is not None}) < len(taken) and None not in taken:
            self._add_problem(location, "has a value twice")
        return [(name, value) for value in taken if value is not None]

    def _read_runs(self, defaults: SweepSettings) -> Iterator[_DraftConfiguration]:
        runs = self._document.get("run", [])
        if not isinstance(runs, list) or not all(isinstance(run, dict) for run in runs):
            self._add_problem("run", "must be a list of tables: [[run]]")
            return
        for number, run in enumerate(runs):
            place = f"run[{number}]."
            self._check_unknown_keys(run, ("name", *CONFIGURATION_KEYS, "variables"), place)
            if "name" not in run:
                self._add_problem(f"{place}name", "is missing: what is this run to be called?")
            label = self._check_value(SHARED_KEYS["name"], run.get("name", "?"), f"{place}name")
            own = self._read_settings({key: value for key, value in run.items() if key != "name"}, place)
            changes = {name: value for name in CONFIGURATION_KEYS if (value := getattr(own, name)) is not None}
            changes |= {f"variables.{name}": value for name, value in own.variables.items()}
            yield _DraftConfiguration(label, _merge(defaults, changes), place.rstrip("."))

    def _check_unused_settings(self, wanted: Sequence[_DraftConfiguration]) -> None:
        """A setting that is given and that no configuration can use is a mistake."""
        everything = [one.settings for one in wanted]
        for name, needs, uses in (
            ("pod_template", 'mode = "h2"', _is_pod),
            ("variables", 'mode = "h2"', _is_pod),
            ("command", 'agent = "command"', _is_command),
            *((name, 'mode = "baseline"', lambda settings: not _is_pod(settings)) for name in _NOT_FOR_PODS),
        ):
            given = [settings for settings in everything if getattr(settings, name)]
            if given and not any(map(uses, given)):
                self._add_problem(name, f"is given, and no configuration uses it: it is for {needs}")

    def _build_configurations(
        self, wanted: Sequence[_DraftConfiguration], shared: Mapping[str, Any]
    ) -> list[SweepConfiguration]:
        effective = [one._replace(settings=_with_mode_defaults(one.settings)) for one in wanted]
        varied = _varying_names([one.settings for one in effective if one.label is None])
        found: dict[str, SweepSettings] = {}
        for label, settings, place in effective:
            name = label or _label(settings, varied)
            if found.get(name) == settings and label is None:
                continue  # they differed in what this one does not use
            if name in found:
                self._add_problem(place, f"another configuration is called {name!r} too")
            elif settings in found.values():
                twin = next(other for other, same in found.items() if same == settings)
                self._add_problem(place, f"{name!r} is the same as {twin!r}")
            found[name] = settings
        return [
            SweepConfiguration(label=name, request=self._request(settings, shared)) for name, settings in found.items()
        ]

    def _request(self, settings: SweepSettings, shared: Mapping[str, Any]) -> RunRequest:
        network = shared.get("network")
        return RunRequest(
            mode=Mode(settings.mode or Mode.BASELINE),
            agent=settings.agent or "",
            command=settings.command or (),
            agent_options=self._agent_options(settings),
            model=self._resolve_model(settings.model),
            preset=self._name_or_path(settings.preset or ""),
            pod_template=self._name_or_path(settings.pod_template) if settings.pod_template else None,
            variables=settings.variables,
            runner=shared.get("runner") or "local",
            image=shared.get("image"),
            isolation=shared.get("isolation") is not False,
            network=Network(network) if network else None,
            trials=settings.trials or 1,
            concurrency=shared.get("concurrency") or 1,
            grade_concurrency=shared.get("grade_concurrency"),
            limits=Limits(wall_seconds=settings.timeout),
            max_turns=settings.max_turns,
            budget=Budget(run_usd=shared.get("max_cost"), task_usd=shared.get("max_cost_per_task")),
            shuffle=shared.get("shuffle"),
        )

    def _agent_options(self, settings: SweepSettings) -> AgentOptions:
        return AgentOptions(
            system_prompt=self._read_prompt("system_prompt", settings.system_prompt),
            append_system_prompt=self._read_prompt("append_system_prompt", settings.append_system_prompt),
            allowed_tools=read_tools(settings.allowed_tools) if settings.allowed_tools else (),
            env=settings.agent_env or {},
        )

    def _read_prompt(self, name: str, written: str | None) -> str | None:
        return self._check_value(lambda text: read_prompt(str(text), self._folder), written, name) if written else None

    def _resolve_model(self, model: str | None) -> str | None:
        if model is not None and model.startswith("script:"):
            return f"script:{self._folder / Path(model.removeprefix('script:')).expanduser()}"
        return model

    def _name_or_path(self, written: str) -> str:
        """A preset or a template: by its name, or the folder or file that it is, which has a slash or a suffix."""
        return self._resolve_path(written) if "/" in written or Path(written).suffix else written

    def _resolve_path(self, written: str) -> str:
        """A path relative to the file. What is not there may be a name, and is for others to judge."""
        path = self._folder / Path(written).expanduser()
        return str(path) if path.exists() or "/" in written else written

    def _check_rule(self, rule: str | None) -> None:
        if rule is not None:
            self._check_value(lambda _: parse_rule(rule), rule, "rule")


def _merge(defaults: SweepSettings, changes: Mapping[str, Any]) -> SweepSettings:
    plain = {name: value for name, value in changes.items() if not name.startswith("variables.")}
    more = {name.removeprefix("variables."): value for name, value in changes.items() if name not in plain}
    return msgspec.structs.replace(defaults, **plain, variables={**defaults.variables, **more})


def _with_mode_defaults(settings: SweepSettings) -> SweepSettings:
    """The same with what a mode brings, and without what it does not use."""
    agent, preset = _MODE_DEFAULTS[Mode(settings.mode or Mode.BASELINE)]
    full = msgspec.structs.replace(
        settings,
        mode=settings.mode or Mode.BASELINE.value,
        agent=settings.agent or agent,
        preset=settings.preset or preset,
        trials=settings.trials or 1,
    )
    unused: dict[str, Any] = {"pod_template": None, "variables": {}}
    if _is_pod(full):
        unused = dict.fromkeys(_NOT_FOR_PODS)
    full = msgspec.structs.replace(full, **unused)
    return full if _is_command(full) else msgspec.structs.replace(full, command=None)


def _is_pod(settings: SweepSettings) -> bool:
    return settings.mode == Mode.H2.value


def _is_command(settings: SweepSettings) -> bool:
    return settings.agent == "command"


def _flatten(settings: SweepSettings) -> dict[str, Any]:
    plain = {name: getattr(settings, name) for name in CONFIGURATION_KEYS}
    return {**plain, **settings.variables}


def _varying_names(settings: Sequence[SweepSettings]) -> list[str]:
    """The settings in which configurations differ: what their labels are made of."""
    flat = [_flatten(one) for one in settings]
    names = dict.fromkeys(name for one in flat for name in one)
    # What a mode brings by itself says nothing that the mode does not.
    return [name for name in names if len({msgspec.json.encode(one.get(name)) for one in flat}) > 1]


def _label(settings: SweepSettings, varied: Sequence[str]) -> str:
    flat = _flatten(settings)
    brought = _MODE_DEFAULTS[Mode(settings.mode or Mode.BASELINE)]
    parts = []
    for name in varied:
        value = flat.get(name)
        if value is None or (name in {"agent", "preset"} and "mode" in varied and value in brought):
            continue
        parts.append(f"{name}={_shorten(value)}")
    return " ".join(parts) or "run"


def _shorten(value: object) -> str:
    if isinstance(value, tuple):
        text = shlex.join(value)
    elif isinstance(value, dict):
        text = " ".join(f"{name}={one}" for name, one in value.items())
    else:
        text = str(value) or "none"
    kind, colon, rest = text.partition(":")
    if colon and kind in {"script", "replay"}:
        text = f"{kind}:{Path(rest).name}"
    return text if len(text) <= _MAX_VALUE_LENGTH else f"{text[: _MAX_VALUE_LENGTH - 1]}…"
