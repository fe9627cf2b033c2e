"""The file of a sweep (TOML): its configurations, its tasks, its limits, and its decision rule.

The keys are the options of `RunRequest`. Reading is pure but for the files that are named. Every problem of a file is
found at once, each with its location in it.
"""

import itertools
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from proctor.analysis import parse_rule
from proctor.core.errors import UsageError
from proctor.core.options import InvalidValue, Scope, Use, option_fields, variable_text
from proctor.core.record import Record
from proctor.core.request import DEFAULT_AGENTS, DEFAULT_PRESETS, Mode, RunRequest
from proctor.core.suggestions import closest
from proctor.core.user_files import parse_toml, read_user_file
from proctor.runner.request import is_used

_FIELDS: Final = {
    name: field
    for name, field in option_fields(RunRequest).items()
    # A sweep has a name of its own, and its runs have labels.
    if field.option.scope not in {Scope.SESSION, Scope.RESUME} and name != "name"
}
# What may differ between configurations, and stand in [grid] and [[run]]; the rest holds for the whole sweep.
_VARYING: Final = tuple(name for name, field in _FIELDS.items() if field.option.varies)
_SHARED: Final = ("name", "benchmark", "reference", "rule", *(name for name in _FIELDS if name not in _VARYING))
_ALIASES: Final = {"baseline": "reference"} | {
    alias: name for name, field in _FIELDS.items() for alias in field.option.aliases
}
_VARIABLE: Final = "variables."
_NEEDS: Final = {Use.POD: 'mode = "h2"', Use.SINGLE: 'mode = "baseline"', Use.COMMAND: 'agent = "command"'}
_MAX_VALUE_LENGTH: Final = 40


class SweepFile(Record):
    """What a file asks for.

    Attributes:
        text: the file itself.
        configurations: the runs, by label.
        reference: the label of the configuration that the others are compared with.
        rule: what counts as a difference, as `proctor.analysis.gate` reads it.
    """

    name: str
    text: str
    configurations: dict[str, RunRequest]
    reference: str
    rule: str | None


def read_sweep_file(file: Path) -> SweepFile:
    """Read a sweep's file. Paths in it are relative to it.

    Raises:
        UsageError: it cannot be read, or something in it is wrong; lists everything that is.
    """
    text = read_user_file(file, "the sweep")
    try:
        document = parse_toml(text)
    except ValueError as error:
        raise UsageError(f"the sweep is not valid TOML: {error}", where=file) from error
    reader = _SweepFileReader(document, file.absolute().parent)
    sweep = reader.read(text, file.stem)
    if sweep is None:
        count = len(reader.problems)
        raise UsageError(
            f"the sweep has {count} problem{'s' if count > 1 else ''}", where=file, details=tuple(reader.problems)
        )
    return sweep


class _Setting(NamedTuple):
    """A setting as it is written, which labels show, and as it was read."""

    written: Any
    value: Any


# By option; a template's variables each by `variables.NAME`.
_Settings = Mapping[str, _Setting]


class _DraftConfiguration(NamedTuple):
    """A configuration as it is written: its label, where it has one of its own, its settings, and its location."""

    label: str | None
    settings: _Settings
    location: str


class _SweepFileReader:
    """Reads one document; what is wrong is noted, and the rest is read all the same."""

    def __init__(self, document: Mapping[str, Any], folder: Path) -> None:
        self.problems: list[str] = []
        self._document = {_ALIASES.get(name, name): value for name, value in document.items()}
        self._folder = folder

    def read(self, text: str, stem: str) -> SweepFile | None:
        """The sweep; None when there are problems."""
        document = self._document
        self._check_unknown_keys(document, (*_SHARED, *_VARYING, "grid", "run"), "")
        shared = {name: self._read_value(name, document[name], name) for name in _SHARED if name in document}
        if ("benchmark" in document) == ("suite" in document):
            self._add_problem("benchmark", "say which benchmark: benchmark or suite, not both")
        defaults = self._read_settings({name: document[name] for name in _VARYING if name in document}, "")
        drafts = [*self._read_grid(defaults), *self._read_runs(defaults)]
        self._check_unused_settings(drafts)
        found = self._label_configurations(drafts)
        rule = shared.pop("rule", None)
        if rule is not None:
            self._check(lambda: parse_rule(rule), rule, "rule")
        reference = shared.pop("reference", None) or next(iter(found), "")
        if not found and not self.problems:
            self._add_problem("grid", "there is nothing to run: give [grid] or [[run]]")
        elif found and reference not in found:
            self._add_problem("reference", f"no configuration is called {reference!r}; there are: {'; '.join(found)}")
        if self.problems:
            return None
        name = shared.pop("name", stem)
        requests = {label: RunRequest(**shared, **_request_values(settings)) for label, settings in found.items()}
        return SweepFile(name=name, text=text, configurations=requests, reference=reference, rule=rule)

    def _add_problem(self, location: str, what: str) -> None:
        self.problems.append(f"{location}: {what}" if location else what)

    def _check(self, read: Callable[[], Any], written: object, location: str) -> Any:
        try:
            return read()
        except InvalidValue as bad:
            self._add_problem(location, f"{bad}, not {written!r}")
        except UsageError as error:
            self._add_problem(location, str(error))
        return None

    def _read_value(self, name: str, written: object, location: str) -> Any:
        # What a sweep adds to the options of a run is text, as a suite's name is.
        field = _FIELDS.get(name, _FIELDS["split"])
        return self._check(lambda: field.read(written, self._folder), written, location)

    def _check_unknown_keys(self, table: Mapping[str, Any], known: Sequence[str], location: str) -> None:
        for name in table:
            if name not in known:
                near = closest(name, known)
                self._add_problem(
                    f"{location}{name}", f"there is no such key{f'; did you mean {near}?' if near else ''}"
                )

    def _read_settings(self, table: Mapping[str, Any], location: str) -> dict[str, _Setting]:
        found: dict[str, _Setting | None] = {}
        for name, written in table.items():
            if name == "variables":
                found |= self._read_variables(written, location)
            else:
                found[name] = self._read_setting(name, written, f"{location}{name}")
        return {name: setting for name, setting in found.items() if setting is not None}

    def _read_setting(self, name: str, written: object, location: str) -> _Setting | None:
        if written == "" and _FIELDS[name].kind == "prompt":
            return _Setting(written, None)  # so that a grid can go without
        value = self._read_value(name, written, location)
        return None if value is None else _Setting(written, value)

    def _read_variables(self, table: object, location: str) -> dict[str, _Setting | None]:
        if not isinstance(table, dict):
            self._add_problem(f"{location}variables", "must be a table")
            return {}
        return {
            f"{_VARIABLE}{name}": self._read_variable(value, f"{location}variables.{name}")
            for name, value in table.items()
        }

    def _read_variable(self, written: object, location: str) -> _Setting | None:
        value = self._check(lambda: variable_text(written), written, location)
        return None if value is None else _Setting(value, value)

    def _read_grid(self, defaults: _Settings) -> Iterator[_DraftConfiguration]:
        """Every combination, in the order of the file, the last axis fastest."""
        grid = self._document.get("grid", {})
        if not isinstance(grid, dict):
            self._add_problem("grid", "must be a table")
            return
        self._check_unknown_keys(grid, (*_VARYING, *_ALIASES), "grid.")
        axes: list[list[tuple[str, _Setting]]] = []
        for key, values in grid.items():
            name, location = _ALIASES.get(key, key), f"grid.{key}"
            if name == "variables" and isinstance(values, dict):
                axes += [
                    self._read_axis(f"{_VARIABLE}{one}", some, self._read_variable, f"{location}.{one}")
                    for one, some in values.items()
                ]
            elif name == "variables":
                self._add_problem(location, "must be a table of lists")
            elif name in _VARYING:

                def read(written: object, at: str, name: str = name) -> _Setting | None:
                    return self._read_setting(name, written, at)

                axes.append(self._read_axis(name, values, read, location))
        if not axes or not all(axes):
            return
        for combination in itertools.product(*axes):
            yield _DraftConfiguration(None, {**defaults, **dict(combination)}, "grid")

    def _read_axis(
        self, name: str, values: object, read: Callable[[object, str], _Setting | None], location: str
    ) -> list[tuple[str, _Setting]]:
        if not isinstance(values, list) or not values:
            self._add_problem(location, "must be a list of at least one value")
            return []
        settings = [read(written, f"{location}[{number}]") for number, written in enumerate(values)]
        taken = [setting for setting in settings if setting is not None]
        if len({msgspec.json.encode(setting.value) for setting in taken}) < len(taken) == len(settings):
            self._add_problem(location, "has a value twice")
        return [(name, setting) for setting in taken]

    def _read_runs(self, defaults: _Settings) -> Iterator[_DraftConfiguration]:
        runs = self._document.get("run", [])
        if not isinstance(runs, list) or not all(isinstance(run, dict) for run in runs):
            self._add_problem("run", "must be a list of tables: [[run]]")
            return
        for number, run in enumerate(runs):
            location = f"run[{number}]."
            self._check_unknown_keys(run, ("name", *_VARYING, *_ALIASES), location)
            if "name" not in run:
                self._add_problem(f"{location}name", "is missing: what is this run to be called?")
            label = self._read_value("name", run.get("name", "?"), f"{location}name")
            known = {_ALIASES.get(name, name): value for name, value in run.items()}
            own = self._read_settings({name: known[name] for name in _VARYING if name in known}, location)
            yield _DraftConfiguration(label, {**defaults, **own}, location.rstrip("."))

    def _check_unused_settings(self, drafts: Sequence[_DraftConfiguration]) -> None:
        """A setting that is given and that no configuration can use is a mistake."""
        for name in dict.fromkeys(_option_name(name) for draft in drafts for name in draft.settings):
            use = _FIELDS[name].option.use
            given = [
                draft.settings
                for draft in drafts
                if any(_option_name(key) == name and setting.value for key, setting in draft.settings.items())
            ]
            if given and use in _NEEDS and not any(_is_used(use, settings) for settings in given):
                self._add_problem(name, f"is given, and no configuration uses it: it is for {_NEEDS[use]}")

    def _label_configurations(self, drafts: Sequence[_DraftConfiguration]) -> dict[str, _Settings]:
        effective = [draft._replace(settings=_effective(draft.settings)) for draft in drafts]
        varied = _varying_names([draft.settings for draft in effective if draft.label is None])
        found: dict[str, _Settings] = {}
        for label, settings, location in effective:
            name = label or _label(settings, varied)
            twin = next((other for other, same in found.items() if _values(same) == _values(settings)), None)
            if twin == name and label is None:
                continue  # they differed in what this one does not use
            if name in found:
                self._add_problem(location, f"another configuration is called {name!r} too")
            elif twin is not None:
                self._add_problem(location, f"{name!r} is the same as {twin!r}")
            found[name] = settings
        return found


def _option_name(key: str) -> str:
    return "variables" if key.startswith(_VARIABLE) else key


def _is_used(use: Use, settings: _Settings) -> bool:
    return is_used(use, _values(settings))


def _values(settings: _Settings) -> dict[str, Any]:
    return {name: setting.value for name, setting in settings.items() if setting.value is not None}


def _effective(settings: _Settings) -> _Settings:
    """The same with what a mode brings, and without what it does not use."""
    mode = settings["mode"].value if "mode" in settings else Mode.BASELINE
    brought = {"mode": mode, "agent": DEFAULT_AGENTS[mode], "preset": DEFAULT_PRESETS[mode], "trials": 1}
    full = {**{name: _Setting(value, value) for name, value in brought.items()}, **settings}
    return {name: one for name, one in full.items() if _is_used(_FIELDS[_option_name(name)].option.use, full)}


def _request_values(settings: _Settings) -> dict[str, Any]:
    values = _values(settings)
    plain = {name: value for name, value in values.items() if not name.startswith(_VARIABLE)}
    variables = {name.removeprefix(_VARIABLE): value for name, value in values.items() if name not in plain}
    return {**plain, "variables": variables}


def _varying_names(settings: Sequence[_Settings]) -> list[str]:
    """The settings in which configurations differ: what their labels are made of."""
    order = {name: position for position, name in enumerate(_VARYING)}
    names = dict.fromkeys(name for one in settings for name in one)
    ordered = sorted(names, key=lambda name: order.get(name, len(order)))
    written = [{name: setting.written for name, setting in one.items()} for one in settings]
    return [name for name in ordered if len({msgspec.json.encode(one.get(name)) for one in written}) > 1]


def _label(settings: _Settings, varied: Sequence[str]) -> str:
    mode = settings["mode"].value
    # What a mode brings by itself says nothing that the mode does not.
    brought = {"agent": DEFAULT_AGENTS[mode], "preset": DEFAULT_PRESETS[mode]} if "mode" in varied else {}
    parts = [
        f"{name.removeprefix(_VARIABLE)}={_shorten(settings[name].written)}"
        for name in varied
        if name in settings and (name not in brought or brought[name] != settings[name].value)
    ]
    return " ".join(parts) or "run"


def _shorten(value: object) -> str:
    if isinstance(value, list):
        text = shlex.join(map(str, value))
    elif isinstance(value, dict):
        text = " ".join(f"{name}={one}" for name, one in value.items())
    else:
        text = str(value) or "none"
    kind, colon, rest = text.partition(":")
    if colon and kind in {"script", "replay"}:
        text = f"{kind}:{Path(rest).name}"
    return text if len(text) <= _MAX_VALUE_LENGTH else f"{text[: _MAX_VALUE_LENGTH - 1]}…"
