"""Grading where the agent worked: a machine whose root it was, and whose every file and process it may have changed.

`take_snapshot` records, before the agent starts, the programs that will decide. When it has finished, `quarantine`
restores the shell, gives what the agent has started time to become a service, kills the rest of what it left running,
adds trusted copies of the programs, and gives the findings; then `run_in_fresh_shell` runs the grader in a shell
without the agent's settings. docs/grading.md says what this cannot see.
"""

from proctor.grading.finding_codes import EnvironmentCode
from proctor.grading.state.changes import changed_since, data_files
from proctor.grading.state.copies import (
    CopyFailed,
    FinalFiles,
    GradingTarget,
    keep_files,
    open_grading_target,
    with_findings,
)
from proctor.grading.state.fresh_shell import (
    ObservedRun,
    ShellResult,
    retry_without_leftovers,
    run_in_fresh_shell,
    run_observed,
)
from proctor.grading.state.processes import (
    LeftoverPolicy,
    ProcessInfo,
    ProcessList,
    find_leftovers,
    kill_processes,
    list_processes,
    parse_process_list,
    processes_beside_main,
    service_pids,
    started_since,
)
from proctor.grading.state.programs import InstalledProgram, ProgramTable, script_words
from proctor.grading.state.quarantine import GraderMarkers, QuarantinedEnvironment, quarantine
from proctor.grading.state.service_startup_wait import ServiceStartupWait, wait_for_services
from proctor.grading.state.snapshot import EnvironmentSnapshot, load_snapshot, take_snapshot

__all__ = [
    "CopyFailed",
    "EnvironmentCode",
    "EnvironmentSnapshot",
    "FinalFiles",
    "GraderMarkers",
    "GradingTarget",
    "InstalledProgram",
    "LeftoverPolicy",
    "ObservedRun",
    "ProcessInfo",
    "ProcessList",
    "ProgramTable",
    "QuarantinedEnvironment",
    "ServiceStartupWait",
    "ShellResult",
    "changed_since",
    "data_files",
    "find_leftovers",
    "keep_files",
    "kill_processes",
    "list_processes",
    "load_snapshot",
    "open_grading_target",
    "parse_process_list",
    "processes_beside_main",
    "quarantine",
    "retry_without_leftovers",
    "run_in_fresh_shell",
    "run_observed",
    "script_words",
    "service_pids",
    "started_since",
    "take_snapshot",
    "wait_for_services",
    "with_findings",
]
