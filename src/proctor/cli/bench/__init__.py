"""``proctor bench``: benchmarks, their tasks, and what agents make of them."""

from typing import Final

from proctor.cli.lazy_group import LazyGroup

COMMANDS: Final = {
    "list": ("proctor.cli.bench.list", "Benchmarks, or the tasks of one."),
    "fetch": ("proctor.cli.bench.fetch", "Bring a benchmark's data to this machine."),
    "validate": ("proctor.cli.bench.validate", "Prove a benchmark on this machine before you spend."),
    "eval": ("proctor.cli.bench.eval", "Grade predictions, or the oracle."),
    "parity": ("proctor.cli.bench.parity", "Grade another harness's predictions, and list where the verdicts differ."),
    "run": ("proctor.cli.bench.run", "Let an agent solve the tasks, and grade it."),
    "sweep": ("proctor.cli.bench.sweep", "Many configurations on the same tasks, compared."),
    "resume": ("proctor.cli.bench.resume", "Resume a run, or a sweep, where it stopped."),
    "report": ("proctor.cli.bench.report", "A benchmark's runs: rates, costs, times, failure reasons."),
    "compare": ("proctor.cli.bench.compare", "Runs on the same tasks: is one better?"),
    "pareto": ("proctor.cli.bench.pareto", "Rate, cost and time together: which runs nothing beats."),
    "breakdown": ("proctor.cli.bench.breakdown", "Results by kind of task: where does it help?"),
    "show": ("proctor.cli.bench.show", "One run, or one task of it."),
    "export": ("proctor.cli.bench.export", "Write a run in another tool's format."),
    "import": ("proctor.cli.bench.import_", "Store another tool's results as a run."),
    "score": ("proctor.cli.bench.score", "The key figures of a report."),
}

command = LazyGroup(COMMANDS, help="Benchmarks, their tasks, and what agents make of them.")
