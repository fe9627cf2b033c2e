"""Requests: every option of a run, and of an evaluation, once.

The options of the command line, the keyword arguments of the Python API, the keys of sweep files and the fields of
``config.json`` are all made from these records. An option is added by adding a field here.
"""

from enum import StrEnum
from typing import Annotated, Final, Literal

from msgspec import field, structs

from proctor.core.agent import DEFAULT_POD_START_SECONDS
from proctor.core.agent_options import AgentOptions
from proctor.core.environment import DEFAULT_DISK_MB, DEFAULT_MEMORY_MB, DEFAULT_PROCESSES, Limits, Network
from proctor.core.options import Scope, Use, option
from proctor.core.record import Record

SOURCE: Final = Scope.SOURCE
SELECTION: Final = Scope.SELECTION
SESSION: Final = Scope.SESSION
LABEL: Final = Scope.LABEL
ExecutorName = Literal["local", "ray"]
RepairMode = Literal["off", "memory", "write"]
VerifierMode = Literal["task", "separate"]


class Mode(StrEnum):
    """Who solves the tasks: one Claude Code agent, or a pod run by h2."""

    BASELINE = "baseline"
    H2 = "h2"


# The agent, and the preset of its sandboxes, where none is given.
DEFAULT_AGENTS: Final = {Mode.BASELINE: "claude_code", Mode.H2: "h2_pod"}
DEFAULT_PRESETS: Final = {Mode.BASELINE: "empty", Mode.H2: "opus"}


class TaskRequest(Record):
    """Which tasks of which benchmark, and in which environments."""

    benchmark: str | None = None
    suite: Annotated[
        str | None,
        option("A suite: its file, its folder, or a shipped suite's name.", "PATH|NAME", scope=SOURCE, kind="suite"),
    ] = None
    split: Annotated[str | None, option("A part of the benchmark, where it has several.", "NAME", scope=SOURCE)] = None
    tasks: Annotated[
        tuple[str, ...], option("Only this task; may be repeated.", "ID", scope=SELECTION, flags=("--task",))
    ] = ()
    filter: Annotated[str | None, option("Only tasks whose id contains TEXT.", "TEXT", scope=SELECTION)] = None
    exact: Annotated[bool, option("With --filter: TEXT is the whole id.", scope=SELECTION)] = False
    categories: Annotated[
        tuple[str, ...],
        option(
            "Only tasks of this category; may be repeated: of all of them.",
            "[NAME=]VALUE",
            scope=SELECTION,
            flags=("--category",),
        ),
    ] = ()
    tags: Annotated[
        tuple[str, ...],
        option(
            "Only tasks with this tag; may be repeated: with all of them.",
            "TAG",
            scope=SELECTION,
            flags=("--task-tag",),
            aliases=("tag",),
        ),
    ] = ()
    exclude: Annotated[
        tuple[str, ...],
        option("A file of task ids to leave out, one a line.", "FILE", scope=SELECTION, kind="task_ids"),
    ] = ()
    after: Annotated[
        str | None,
        option(
            "Only tasks made from changes after this day, such as a model's training cutoff.",
            "DATE",
            scope=SELECTION,
            kind="day",
        ),
    ] = None
    limit: Annotated[int | None, option("At most N tasks, after all other choices.", "N", scope=SELECTION, least=0)] = (
        None
    )
    runner: Annotated[
        str,
        option("The provider of environments: local (bubblewrap), docker (containers), or a plugin's.", "NAME"),
    ] = "local"
    image: Annotated[
        str | None,
        option(
            "With --runner docker: the image, instead of the benchmark's own.",
            "IMAGE",
            flags=("--docker-image",),
            use=Use.CONTAINER,
        ),
    ] = None
    image_map: Annotated[
        dict[str, str],
        option(
            "With --runner docker: a JSON or YAML file of images to use instead of others: {name: name}.",
            "FILE",
            kind="images",
            use=Use.CONTAINER,
        ),
    ] = field(default_factory=dict)
    force_build: Annotated[
        bool,
        option(
            "With --runner docker: build a task's image from its Dockerfile, also where a ready image is named.",
            use=Use.CONTAINER,
        ),
    ] = False
    image_disk: Annotated[
        int | None,
        option(
            "With --runner docker: the disk space that pulled images may take, such as 40GB.",
            "SIZE",
            scope=SESSION,
            kind="size",
            use=Use.CONTAINER,
        ),
    ] = None
    controls: Annotated[
        int,
        option(
            "Control pairs: test runs with altered expectations, which a correct submission fails; 0 disables.",
            "K",
            least=0,
        ),
    ] = 1
    verifier: Annotated[
        VerifierMode,
        option(
            "Where verifiers of Harbor's tasks run: as the task says, or in an environment of their own, which has "
            "the task's artifacts and nothing else of the agent's."
        ),
    ] = "task"
    isolation: Annotated[
        bool,
        option(
            "Isolate local environments from this machine; `off` is unsafe. [default: on]",
            "[on|off]",
            kind="on_off",
        ),
    ] = True
    executor: Annotated[
        ExecutorName,
        option("Where agents and graders run: on this machine, or on the nodes of a Ray cluster.", scope=SESSION),
    ] = "local"
    address: Annotated[
        str | None,
        option(
            "With --executor ray: the cluster. [default: the one that this machine is a node of]",
            "HOST:PORT",
            scope=SESSION,
            use=Use.CLUSTER,
        ),
    ] = None
    node_slots: Annotated[
        int | None,
        option(
            "With --executor ray: agents (of `eval` and `validate`: graders) running at once on each node. "
            "[default: --concurrency, or --jobs]",
            "N",
            scope=SESSION,
            least=1,
            use=Use.CLUSTER,
        ),
    ] = None
    insecure_cluster: Annotated[
        bool,
        option("With --executor ray: allow a cluster without token authentication.", scope=SESSION, use=Use.CLUSTER),
    ] = False


class RunRequest(TaskRequest):
    """Every option of a run."""

    name: Annotated[
        str | None,
        option("A name for the run, which commands take where they take its id.", "NAME", scope=LABEL, kind="run_name"),
    ] = None
    run_tags: Annotated[
        dict[str, str],
        option(
            "A tag of the run, to find it by; may be repeated.",
            "NAME=VALUE",
            scope=LABEL,
            flags=("--tag",),
            kind="run_tags",
        ),
    ] = field(default_factory=dict)
    note: Annotated[str | None, option("A note that is kept with the run.", "TEXT", scope=LABEL)] = None
    mode: Annotated[Mode, option("One agent, or a pod of agents that h2 runs.", varies=True)] = Mode.BASELINE
    agent: Annotated[
        str | None,
        option(
            "claude_code, codex, gemini, pi, opencode, copilot, mini_swe_agent, qwen, droid, kimi, cline, openhands, "
            "aider, command, oracle, nop, or a plugin's. [default: claude_code; with --mode h2: h2_pod]",
            "NAME",
            varies=True,
        ),
    ] = None
    command: Annotated[
        tuple[str, ...],
        option(
            "With --agent command: the command line to run in the environment (shell quoting).",
            "COMMAND",
            flags=("--agent-command",),
            kind="words",
            use=Use.COMMAND,
            varies=True,
        ),
    ] = ()
    system_prompt: Annotated[
        str | None,
        option(
            "Text that replaces the system prompt of the agent's program.",
            "TEXT|@FILE",
            kind="prompt",
            use=Use.SINGLE,
            varies=True,
        ),
    ] = None
    append_system_prompt: Annotated[
        str | None,
        option(
            "Text appended to the system prompt of the agent's program.",
            "TEXT|@FILE",
            kind="prompt",
            use=Use.SINGLE,
            varies=True,
        ),
    ] = None
    allowed_tools: Annotated[
        tuple[str, ...],
        option(
            "The tools that the model is offered, as Bash,Read. [default: all]",
            "LIST",
            kind="tools",
            use=Use.SINGLE,
            varies=True,
        ),
    ] = ()
    effort: Annotated[
        str | None,
        option(
            "Reasoning effort, for agents with such a setting: low, medium, high, or another level that the agent's "
            "program has. [default: the program's own]",
            "LEVEL",
            use=Use.SINGLE,
            varies=True,
        ),
    ] = None
    agent_env: Annotated[
        dict[str, str],
        option(
            "A variable for the agent's program; may be repeated. It is stored with the run: no secrets.",
            "NAME=VALUE",
            varies=True,
        ),
    ] = field(default_factory=dict)
    model: Annotated[
        str | None,
        option(
            "A model id or short name; NAME/MODEL of a --provider; script:FILE; replay:RUN.",
            "MODEL",
            kind="model",
            varies=True,
        ),
    ] = None
    providers: Annotated[
        dict[str, str],
        option(
            "Base URL of a provider: anthropic, openai, gemini, or a name of your own for a server with OpenAI's API, "
            "whose key is in NAME_API_KEY; may be repeated.",
            "NAME=URL",
            flags=("--provider",),
        ),
    ] = field(default_factory=dict)
    preset: Annotated[
        str | None,
        option(
            "The preset of the agents' sandboxes: a name, or a folder. [default: empty; with --mode h2: opus]",
            "NAME|DIR",
            kind="name_or_path",
            varies=True,
        ),
    ] = None
    pod_template: Annotated[
        str | None,
        option(
            "With --mode h2: a pod template of the preset, or a file. [default: benchmark]",
            "NAME|FILE",
            kind="name_or_path",
            use=Use.POD,
            varies=True,
        ),
    ] = None
    variables: Annotated[
        dict[str, str],
        option(
            "With --mode h2: a variable of the template; may be repeated.",
            "K=V",
            flags=("--var",),
            use=Use.POD,
            varies=True,
        ),
    ] = field(default_factory=dict)
    trials: Annotated[int, option("Trials of each task.", "K", aliases=("attempts",), least=1, varies=True)] = 1
    shuffle: Annotated[int | None, option("Shuffle the tasks with this seed.", "SEED")] = None
    concurrency: Annotated[
        int, option("Agents running at once.", "N", flags=("--concurrency", "--parallel"), least=1)
    ] = 1
    grade_concurrency: Annotated[
        int | None, option("Graders running at once. [default: as many as CPUs]", "N", least=1)
    ] = None
    timeout: Annotated[
        float | None, option("Agent timeout per task. [default: the benchmark's own]", "SECONDS", varies=True)
    ] = None
    one_conversation: Annotated[
        bool,
        option(
            "In a task of several steps, resume the conversation of the step before; otherwise each step begins anew.",
            use=Use.SINGLE,
            varies=True,
        ),
    ] = False
    max_turns: Annotated[
        int,
        option("Maximum model requests per trial; not for pods.", "N", least=1, use=Use.SINGLE, varies=True),
    ] = 100
    max_cost_per_task: Annotated[float | None, option("Cost limit per trial.", "USD")] = None
    network: Annotated[Network | None, option("Network access of agents. [default: the benchmark's own]")] = None
    memory: Annotated[
        int | None,
        option(
            f"Memory limit of an agent's environment, as 4GB. [default: the task's, or {DEFAULT_MEMORY_MB >> 10}GiB]",
            "SIZE",
            kind="size",
        ),
    ] = None
    processes: Annotated[
        int | None,
        option(f"Process limit of an agent's environment. [default: the task's, or {DEFAULT_PROCESSES}]", "N", least=1),
    ] = None
    disk: Annotated[
        int | None,
        option(
            f"Disk limit of an agent's environment. [default: the task's, or {DEFAULT_DISK_MB >> 10}GiB]",
            "SIZE",
            kind="size",
        ),
    ] = None
    gpus: Annotated[
        int | None,
        option(
            "With --runner docker: GPUs of an agent's environment. [default: as many as the task needs]",
            "N",
            least=1,
            use=Use.CONTAINER,
        ),
    ] = None
    web: Annotated[
        bool, option("Allow tools that the provider executes: web search and fetch, hosted MCP, code execution.")
    ] = False
    max_cost: Annotated[float | None, option("Cost limit of the run or sweep.", "USD", resumable=True)] = None
    h2_program: Annotated[
        str | None,
        option(
            "For pods: the program h2. [default: from H2_BIN or PATH]",
            "FILE",
            scope=SESSION,
            flags=("--h2-bin",),
            use=Use.POD,
        ),
    ] = None
    pod_start_timeout: Annotated[
        float,
        option(
            "With --mode h2: the time that all agents of a pod have to start.",
            "SECONDS",
            scope=SESSION,
            use=Use.POD,
        ),
    ] = DEFAULT_POD_START_SECONDS
    program: Annotated[
        str | None,
        option(
            "The agent's program, if it is not on PATH; for `command`, a file or folder to mount in the environment.",
            "FILE",
            scope=SESSION,
            kind="path",
            flags=("--agent-bin", "--claude-bin"),
        ),
    ] = None
    own_login: Annotated[bool, option("Use the agent's own login instead of an API key.", scope=SESSION)] = False
    auth_from: Annotated[
        str | None,
        option("With --own-login: where the login is. [default: ~/.h2/claude-config/default]", "DIR", scope=SESSION),
    ] = None
    retries: Annotated[
        int, option("How often to retry after an error that was not the agent's.", "N", scope=SESSION, least=0)
    ] = 2
    prices: Annotated[
        str | None,
        option(
            "A JSON or YAML file of prices, in addition to the built-in ones; also in litellm's format, or "
            "`litellm` for the table of the installed package.",
            "FILE|litellm",
            scope=SESSION,
            kind="name_or_path",
            env="PROCTOR_PRICES",
        ),
    ] = None
    notify: Annotated[
        tuple[str, ...],
        option(
            "Command or webhook that receives a JSON summary when the session ends; may be repeated.",
            "COMMAND|URL",
            scope=SESSION,
        ),
    ] = ()
    retry_errors: Annotated[bool, option("Retry trials that ended in an error.", scope=Scope.RESUME)] = False

    def agent_limits(self, own: Limits) -> Limits:
        """The limits of an agent's environment for a task that has limits of its `own`."""
        given = {
            "memory_mb": None if self.memory is None else max(1, self.memory >> 20),
            "processes": self.processes,
            "disk_mb": None if self.disk is None else max(1, self.disk >> 20),
            "gpus": None if self.gpus is None else max(own.gpus, self.gpus),
        }
        given = {name: value for name, value in given.items() if value is not None}
        return structs.replace(own, **given).with_defaults()

    @property
    def agent_options(self) -> AgentOptions:
        """What the agent is given beside the task."""
        return AgentOptions(
            system_prompt=self.system_prompt,
            append_system_prompt=self.append_system_prompt,
            allowed_tools=self.allowed_tools,
            effort=self.effort,
            env=self.agent_env,
        )


class EvaluateRequest(TaskRequest):
    """Every option of grading without an agent: `eval`, `validate` and `parity`."""

    timeout: Annotated[float | None, option("Timeout of each test run. [default: the benchmark's own]", "SECONDS")] = (
        None
    )
    jobs: Annotated[int, option("Tasks graded at the same time.", "N", flags=("--jobs", "--parallel"), least=1)] = 1
    artifacts: Annotated[
        str, option("Where test results and logs are stored.", "DIR", flags=("--artifact-dir",), kind="path")
    ] = "target/proctor"
    keep_artifacts: Annotated[bool, option("Keep the graded trees there too.")] = False
    repair: Annotated[
        RepairMode,
        option(
            "Where a suite's test program has a linter: let it repair what the patch touched; "
            "memory: only count what it would do."
        ),
    ] = "write"
    repair_max_iters: Annotated[int, option("Maximum repair iterations.", "N", least=1)] = 3
    determinism_runs: Annotated[
        int | None,
        option("Run the tests after the patch N times. [default: the suite's, or 1; `validate`: 2]", "N", least=1),
    ] = None
    cache: Annotated[
        bool, option("Reuse cached verdicts.", flags=("--no-cache",), flag_help="Ignore cached verdicts.")
    ] = True
