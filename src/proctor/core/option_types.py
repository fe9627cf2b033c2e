"""The types of the Python API's options, generated from the requests.

``python -m proctor.core.option_types FILE`` writes them; a test fails when the shipped ones are stale.
"""

import sys
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from proctor.core.options import OptionField, Scope, is_sweep_option, option_fields
from proctor.core.request import EvaluateRequest, RunRequest, TaskRequest

_HEAD: Final = '''"""The options of the Python API. Generated from `proctor.core.request` by `make schemas`."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypedDict

from proctor.core.agent import Agent
from proctor.core.benchmark import Benchmark
from proctor.core.environment import EnvironmentProvider
from proctor.core.result import TaskResult

TrialCallback = Callable[[str, int, TaskResult | None], None]
'''
_TYPES: Final = {
    "amount": "float",
    "count": "int",
    "day": "str",
    "images": "Mapping[str, str] | Path | str",
    "integer": "int",
    "on_off": "bool",
    "pairs": "Mapping[str, str]",
    "path": "Path | str",
    "run_tags": "Mapping[str, str]",
    "size": "int | str",
    "task_ids": "Sequence[str] | Path | str",
    "texts": "Sequence[str]",
    "tools": "Sequence[str] | str",
    "truth": "bool",
    "words": "Sequence[str] | str",
}
# What may be given as an object, too.
_OBJECTS: Final = {
    "agent": ("Agent | type[Agent]", "The agent of the run."),
    "benchmark": ("Benchmark", "The benchmark of the run."),
    "runner": ("EnvironmentProvider", "The provider of its environments."),
}
_WIDTH: Final = 116


def render() -> str:
    """The module with the types."""
    run, evaluation = option_fields(RunRequest).values(), option_fields(EvaluateRequest).values()
    task = option_fields(TaskRequest)

    def is_common(field: OptionField) -> bool:
        return field.option.scope is Scope.SESSION or field.option.resumable

    def is_of_tasks(field: OptionField) -> bool:
        return field.name in task and not is_common(field)

    common = [
        ("results", "Path | None", "Where runs are stored. [default: PROCTOR_RESULTS, or ./results]"),
        (
            "on_trial_finished",
            "TrialCallback | None",
            "Is called with the task, the trial's number and its result; None: it is left for another session.",
        ),
        *_lines(run, is_common),
    ]
    sweep = _lines(run, lambda field: is_sweep_option(field) and not is_common(field))
    resume = [
        *(
            (name, kind, f"{text} Only where the run was started with an object: the same one.")
            for name, (kind, text) in sorted(_OBJECTS.items())
        ),
        *_lines(run, lambda field: field.option.scope is Scope.RESUME),
    ]
    own = _lines(
        run,
        lambda field: not is_common(field) and not is_of_tasks(field) and field.option.scope is not Scope.RESUME,
    )
    return "\n\n".join(
        [
            _HEAD,
            _typed_dict("CommonOptions", "TypedDict", "Options of every function that works on runs.", common),
            _typed_dict("SweepOptions", "CommonOptions", "Options of `sweep`.", sweep),
            _typed_dict("ResumeOptions", "CommonOptions", "Options of `resume` and `resume_sweep`.", resume),
            _typed_dict(
                "TaskOptions", "TypedDict", "Which tasks, in which environments.", _lines(task.values(), is_of_tasks)
            ),
            _typed_dict(
                "RunOptions", "CommonOptions, TaskOptions", "Options of `run`: those of ``proctor bench run``.", own
            ),
            _typed_dict(
                "EvaluateOptions",
                "TaskOptions",
                "Options of `evaluate` and `validate`: those of ``proctor bench eval``.",
                _lines(evaluation, lambda field: not is_of_tasks(field)),
            ),
        ]
    )


def _lines(fields: Iterable[OptionField], only: Callable[[OptionField], bool]) -> list[tuple[str, str, str]]:
    return [
        (field.name, _type_of(field), field.option.help) for field in fields if only(field) and field.name != "suite"
    ]


def _type_of(field: OptionField) -> str:
    kind = f"Literal[{', '.join(map(repr, field.choices))}]".replace("'", '"') if field.choices else ""
    kind = kind or _TYPES.get(field.kind, "str")
    if field.name in _OBJECTS:
        kind += f" | {_OBJECTS[field.name][0]}"
    return kind if field.default is not None else f"{kind} | None"


def _typed_dict(name: str, base: str, about: str, lines: Iterable[tuple[str, str, str]]) -> str:
    known = list(lines)
    described = "\n".join(
        textwrap.fill(f"{option}: {text}", _WIDTH, initial_indent=" " * 8, subsequent_indent=" " * 12)
        for option, _, text in known
    )
    fields = "\n".join(f"    {option}: {kind}" for option, kind, _ in known)
    return f'class {name}({base}, total=False):\n    """{about}\n\n    Attributes:\n{described}\n    """\n\n{fields}\n'


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(render(), encoding="utf-8")
