"""Options: each is a field of a request, which states once its name, type, default, help text and allowed values.

The command line, the Python API and sweep files all read values with `OptionField.read`, so that what one of them
refuses, all refuse.
"""

import functools
import math
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from enum import StrEnum
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import msgspec

from proctor.core.agent_options import read_prompt, read_tools
from proctor.core.errors import UsageError
from proctor.core.record import Record
from proctor.core.suggestions import closest
from proctor.core.user_files import parse_yaml, read_user_file

MAX_NAME: Final = 100
# Ids that runs and sweeps have by themselves, which no name may be mistaken for.
_OWN_IDS: Final = re.compile(r"(?:run|sweep)-\d+")
# More of anything is a typing error: a million trials of one task, a million agents at once.
MAX_COUNT: Final = 1_000_000
_SIZE_UNITS: Final = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12} | {
    f"{letter}I": 1 << (10 * power) for power, letter in enumerate("KMGT", start=1)
}


class Scope(StrEnum):
    """What an option is about: which benchmark, its tasks, the run, what it is called, or one session of it."""

    SOURCE = "source"
    SELECTION = "selection"
    RUN = "run"
    LABEL = "label"
    SESSION = "session"
    RESUME = "resume"


class Use(StrEnum):
    """The configurations that an option has a meaning for."""

    ANY = "any"
    POD = "pod"
    SINGLE = "single"
    COMMAND = "command"
    CONTAINER = "container"
    CLUSTER = "cluster"


class Option(Record):
    """The description of an option; its name, type and default are the field's own.

    Attributes:
        metavar: how help pages write its value.
        flags: on the command line, where they are not made from the name.
        aliases: older names, which are read and not shown.
        least: the lowest number allowed.
        kind: how a value is read, where the type does not decide it; one of the names in `_READERS`.
        varies: it may differ between the configurations of a sweep.
        resumable: it may be given again when a run is resumed, as all of scope `session` may.
        env: the environment variable that the command line takes it from.
        flag_help: the help of a flag that turns it off.
    """

    help: str
    metavar: str = ""
    scope: Scope = Scope.RUN
    flags: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    least: int | None = None
    kind: str = ""
    use: Use = Use.ANY
    varies: bool = False
    resumable: bool = False
    env: str = ""
    flag_help: str = ""


def option(text: str, metavar: str = "", **details: Any) -> msgspec.Meta:
    """The annotation that makes a field of a request an option; `details` are fields of `Option`."""
    return msgspec.Meta(description=text, extra={"option": Option(help=text, metavar=metavar, **details)})


class InvalidValue(Exception):
    """Why a value is refused, as in "must be a number above 0"."""


class OptionField(Record):
    """A field of a request that is an option."""

    name: str
    option: Option
    kind: str
    default: Any
    choices: tuple[str, ...] = ()
    enum: type[StrEnum] | None = None

    @property
    def flags(self) -> tuple[str, ...]:
        """Its names on the command line that help pages show."""
        return self.option.flags or (f"--{self.name.replace('_', '-')}",)

    @property
    def flag(self) -> str:
        """The first of them."""
        return self.flags[0]

    @property
    def repeated(self) -> bool:
        """Whether the command line takes it several times."""
        return self.kind in {"texts", "pairs", "run_tags"}

    def read(self, value: object, folder: Path, *, text: bool = False) -> Any:
        """The value as the request holds it. Paths are relative to `folder`; with `text`, numbers come as text.

        Raises:
            InvalidValue: it is not one that this option takes.
            UsageError: a file that it names cannot be read.
        """
        if value is None:
            return None
        if text and isinstance(value, str):
            value = _from_text(self.kind, value)
        return _READERS[self.kind](self, value, folder)


@functools.cache
def option_fields(record: type[Record]) -> Mapping[str, OptionField]:
    """The options of a request, by name, in their order."""
    found = {}
    for field in msgspec.structs.fields(record):
        extra = next((meta.extra for meta in get_args(field.type)[1:] if isinstance(meta, msgspec.Meta)), None)
        if get_origin(field.type) is Annotated and extra is not None:
            described: Option = extra["option"]
            default = field.default if field.default is not msgspec.NODEFAULT else None
            if field.default_factory is not msgspec.NODEFAULT:
                default = field.default_factory()
            kind, choices, enum = _kind_of(get_args(field.type)[0], described)
            found[field.name] = OptionField(
                name=field.name,
                option=described,
                kind=described.kind or kind,
                default=default,
                choices=choices,
                enum=enum,
            )
    return found


def is_sweep_option(field: OptionField) -> bool:
    """Whether an option can be given beside a sweep's file; a sweep has its name from there."""
    return (
        field.option.scope is Scope.SESSION
        or field.option.resumable
        or (field.option.scope is Scope.LABEL and field.kind != "run_name")
    )


def resolve_aliases(record: type[Record], given: Mapping[str, Any], known: Iterable[str]) -> dict[str, Any]:
    """What is given, by the options' own names.

    Raises:
        UsageError: an option is not among the `known` ones; a budget whose name is misspelt must not be no budget.
    """
    fields, names = option_fields(record), set(known)
    by_alias = {
        alias: name
        for name, field in fields.items()
        for alias in field.option.aliases
        if name in names and alias not in names
    }
    for name in given:
        if name not in names and name not in by_alias:
            near = closest(name, names)
            raise UsageError(f"there is no option {name!r}", fix=f"did you mean {near!r}?" if near else None)
    return {by_alias.get(name, name): value for name, value in given.items()}


def read_options(
    record: type[Record], given: Mapping[str, Any], *, folder: Path, command_line: bool = False
) -> dict[str, Any]:
    """The values of a request's fields, from what is given by name.

    Raises:
        UsageError: a value is refused; says which, by its flag where it is from the command line.
    """
    fields, values = option_fields(record), {}
    for name, value in given.items():
        field = fields[name]
        try:
            values[name] = field.read(value, folder, text=command_line)
        except InvalidValue as bad:
            shown = value[0] if isinstance(value, tuple) and len(value) == 1 else value
            instead = f", not {shown!r}" if str(bad).startswith("must be ") else ""
            raise UsageError(f"{field.flag if command_line else name} {bad}{instead}") from None
    return values


def _kind_of(declared: Any, described: Option) -> tuple[str, tuple[str, ...], type[StrEnum] | None]:
    """How values of a type are read, and which values there are, where they can be listed."""
    if get_origin(declared) in {Union, UnionType}:
        declared = next(part for part in get_args(declared) if part is not type(None))
    origin = get_origin(declared)
    if origin is Literal:
        return "choice", get_args(declared), None
    if isinstance(declared, type) and issubclass(declared, StrEnum):
        return "choice", tuple(member.value for member in declared), declared
    if declared is int:
        return ("integer" if described.least is None else "count"), (), None
    kinds = {bool: "truth", float: "amount", str: "text", tuple: "texts", dict: "pairs"}
    return kinds[origin or declared], (), None


def _from_text(kind: str, text: str) -> object:
    """What the command line gives as text, as Python and TOML would give it; as it is, where it is nothing else."""
    try:
        match kind:
            case "count" | "integer":
                return int(text)
            case "amount":
                return float(text)
            case "on_off":
                return {"on": True, "off": False}.get(text, text)
    except ValueError:
        pass
    return text


def _day(field: OptionField, value: Any, folder: Path) -> str:
    """A day of the calendar, as 2026-06-30."""
    text = value.isoformat()[:10] if isinstance(value, date) else _text(field, value, folder)
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError as error:
        raise InvalidValue("must be a day, as 2026-06-30") from error


def _text(_: OptionField, value: object, __: Path) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InvalidValue("must be a string")
    return value


def read_run_name(value: object) -> str:
    """The name of a run, which commands take where they take its id.

    Raises:
        InvalidValue: it could be taken for an option, a path, or an id.
    """
    if not isinstance(value, str) or not value.strip() or not value.isprintable() or len(value) > MAX_NAME:
        raise InvalidValue(f"must be a string of one line, of at most {MAX_NAME} characters")
    if value != value.strip() or value.startswith(("-", ".", "~")) or "/" in value:
        raise InvalidValue("must not have a slash in it, begin with - . or ~, or have spaces around it")
    if _OWN_IDS.fullmatch(value):
        raise InvalidValue("must not look like the id of a run, such as run-002")
    return value


def read_run_tags(value: object) -> dict[str, str]:
    """The tags of a run: a table, or a list of NAME=VALUE.

    Raises:
        InvalidValue: it is neither.
    """
    try:
        return _read_pairs(value)
    except InvalidValue as bad:
        raise InvalidValue(f"{bad} (a tag of the run; --task-tag selects tasks)") from None


def _texts(_: OptionField, value: object, __: Path) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(word, str) for word in value):
        raise InvalidValue("must be a list of texts")
    return tuple(value)


def _choice(field: OptionField, value: object, _: Path) -> str:
    if value not in field.choices:
        raise InvalidValue(f"must be one of {', '.join(field.choices)}")
    return field.enum(value) if field.enum else str(value)


def _count(field: OptionField, value: object, _: Path) -> int:
    least = field.option.least or 0
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= MAX_COUNT:
        raise InvalidValue(f"must be a whole number from {least} to {MAX_COUNT:,}")
    return value


def _integer(_: OptionField, value: object, __: Path) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidValue("must be a whole number")
    return value


def _amount(_: OptionField, value: object, __: Path) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < math.inf:
        raise InvalidValue("must be a number above 0")
    return float(value)


def _truth(_: OptionField, value: object, __: Path) -> bool:
    if not isinstance(value, bool):
        raise InvalidValue("must be true or false")
    return value


def _on_off(_: OptionField, value: object, __: Path) -> bool:
    if not isinstance(value, bool):
        raise InvalidValue("must be true or false; on the command line, on or off")
    return value


def _size(_: OptionField, value: object, __: Path) -> int:
    return parse_size(value)


def parse_size(value: object) -> int:
    """A number of bytes, or an amount as people write it: 500MB, 40GB, 1.5TiB.

    Raises:
        InvalidValue: it is neither.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?I?)B?\s*", str(value).upper())
    unit = _SIZE_UNITS.get(match[2]) if match else None
    if match is None or unit is None or not float(match[1]):
        raise InvalidValue("must be a size, such as 500MB, 40GB or 1.5TiB")
    return int(float(match[1]) * unit)


def _words(_: OptionField, value: object, __: Path) -> tuple[str, ...]:
    """A command: one text, read as a shell would, or a list of words."""
    if isinstance(value, str):
        try:
            words = tuple(shlex.split(value))
        except ValueError as error:
            raise InvalidValue(f"cannot be read as a shell would: {error}: {value}") from error
    elif isinstance(value, list | tuple) and all(isinstance(word, str) for word in value):
        words = tuple(value)
    else:
        raise InvalidValue("must be a command: a string, or a list of strings")
    if not words:
        raise InvalidValue("must not be empty")
    return words


def _prompt(_: OptionField, value: object, folder: Path) -> str:
    if not isinstance(value, str):
        raise InvalidValue('must be a string, or "@FILE"')
    return read_prompt(value, folder)


def _tools(field: OptionField, value: object, folder: Path) -> tuple[str, ...]:
    return read_tools(value) if isinstance(value, str) else _texts(field, value, folder)


def _read_pairs(value: object) -> dict[str, str]:
    """A table, or a list of NAME=VALUE."""
    if isinstance(value, Mapping):
        return {name: variable_text(one) for name, one in value.items()}
    if not isinstance(value, tuple):
        raise InvalidValue("must be a table")
    found = {}
    for pair in value:
        name, separator, text = str(pair).partition("=")
        if not separator or not name:
            raise InvalidValue("must be of the form NAME=VALUE")
        found[name] = text
    return found


def variable_text(value: object) -> str:
    """What a variable is filled in with.

    Raises:
        InvalidValue: it is neither a text, a number nor a truth value.
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise InvalidValue("must be a string, a number, true or false")


def _path(_: OptionField, value: object, folder: Path) -> str:
    if not isinstance(value, str | Path):
        raise InvalidValue("must be a path")
    return str(folder / Path(value).expanduser())


def _model(field: OptionField, value: object, folder: Path) -> str:
    text = _text(field, value, folder)
    script = text.removeprefix("script:")
    return text if script in {text, ""} else f"script:{folder / Path(script).expanduser()}"


def _name_or_path(field: OptionField, value: object, folder: Path) -> str:
    """A name, or the file or folder that it is, which has a slash or a suffix or is there."""
    text = _text(field, value, folder)
    if "/" not in text and not Path(text).suffix:
        return text
    path = folder / Path(text).expanduser()
    return str(path) if path.exists() or "/" in text else text


def _suite(field: OptionField, value: object, folder: Path) -> str:
    """A suite's name, file or folder. In a sweep's file, what lies beside it comes first."""
    text = _text(field, value, folder)
    path = folder / Path(text).expanduser()
    return str(path) if folder != Path.cwd() and (path.exists() or "/" in text) else text


def _task_ids(field: OptionField, value: object, folder: Path) -> tuple[str, ...]:
    """The ids in a file, one a line, where what follows a ``#`` is a remark; or a list of them."""
    if not isinstance(value, str | Path):
        return _texts(field, value, folder)
    lines = read_user_file(_shown_path(folder, value), "the exclusion list").splitlines()
    ids = (re.split(r"\s#", line)[0].strip() for line in lines)
    return tuple(task_id for task_id in ids if task_id and not task_id.startswith("#"))


def _images(_: OptionField, value: object, folder: Path) -> dict[str, str]:
    """Which images to use instead of others: a table, or a JSON or YAML file that holds it."""
    where = None
    if isinstance(value, str | Path):
        where = _shown_path(folder, value)
        text = read_user_file(where, "the image map")
        try:
            value = parse_yaml(text)
        except ValueError as error:
            raise UsageError(f"this is neither JSON nor YAML: {error}", where=where) from error
    if not isinstance(value, Mapping) or not all(isinstance(word, str) for pair in value.items() for word in pair):
        if where is None:
            raise InvalidValue("must be a table from image names to image names, or a file that holds one")
        raise UsageError("an image map is one object: image name to image name", where=where)
    return dict(value)


def _shown_path(folder: Path, value: str | Path) -> Path:
    """A file that a user names; in messages as it was written, where it is below the working directory."""
    path = Path(value).expanduser()
    return path if folder == Path.cwd() else folder / path


_READERS: Final[dict[str, Callable[[OptionField, Any, Path], Any]]] = {
    "amount": _amount,
    "choice": _choice,
    "count": _count,
    "day": _day,
    "images": _images,
    "integer": _integer,
    "model": _model,
    "name_or_path": _name_or_path,
    "on_off": _on_off,
    "pairs": lambda _, value, __: _read_pairs(value),
    "path": _path,
    "prompt": _prompt,
    "run_name": lambda _, value, __: read_run_name(value),
    "run_tags": lambda _, value, __: read_run_tags(value),
    "size": _size,
    "suite": _suite,
    "task_ids": _task_ids,
    "text": _text,
    "texts": _texts,
    "tools": _tools,
    "truth": _truth,
    "words": _words,
}
