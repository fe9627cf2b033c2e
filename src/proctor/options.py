"""The options of the Python API. Generated from `proctor.core.request` by `make schemas`."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypedDict

from proctor.core.agent import Agent
from proctor.core.benchmark import Benchmark
from proctor.core.environment import EnvironmentProvider
from proctor.core.result import TaskResult

TrialCallback = Callable[[str, int, TaskResult | None], None]


class CommonOptions(TypedDict, total=False):
    """Options of every function that works on runs.

    Attributes:
        results: Where runs are stored. [default: PROCTOR_RESULTS, or ./results]
        on_trial_finished: Is called with the task, the trial's number and its result; None: it is left for another
            session.
        image_disk: With --runner docker: the disk space that pulled images may take, such as 40GB.
        executor: Where agents and graders run: on this machine, or on the nodes of a Ray cluster.
        address: With --executor ray: the cluster. [default: the one that this machine is a node of]
        node_slots: With --executor ray: agents (of `eval` and `validate`: graders) running at once on each node.
            [default: --concurrency, or --jobs]
        insecure_cluster: With --executor ray: allow a cluster without token authentication.
        max_cost: Cost limit of the run or sweep.
        h2_program: For pods: the program h2. [default: from H2_BIN or PATH]
        pod_start_timeout: With --mode h2: the time that all agents of a pod have to start.
        program: The agent's program, if it is not on PATH; for `command`, a file or folder to mount in the
            environment.
        own_login: Use the agent's own login instead of an API key.
        auth_from: With --own-login: where the login is. [default: ~/.h2/claude-config/default]
        retries: How often to retry after an error that was not the agent's.
        prices: A JSON or YAML file of prices, in addition to the built-in ones; also in litellm's format, or
            `litellm` for the table of the installed package.
        notify: Command or webhook that receives a JSON summary when the session ends; may be repeated.
    """

    results: Path | None
    on_trial_finished: TrialCallback | None
    image_disk: int | str | None
    executor: Literal["local", "ray"]
    address: str | None
    node_slots: int | None
    insecure_cluster: bool
    max_cost: float | None
    h2_program: str | None
    pod_start_timeout: float
    program: Path | str | None
    own_login: bool
    auth_from: str | None
    retries: int
    prices: str | None
    notify: Sequence[str]


class SweepOptions(CommonOptions, total=False):
    """Options of `sweep`.

    Attributes:
        run_tags: A tag of the run, to find it by; may be repeated.
        note: A note that is kept with the run.
    """

    run_tags: Mapping[str, str]
    note: str | None


class ResumeOptions(CommonOptions, total=False):
    """Options of `resume` and `resume_sweep`.

    Attributes:
        agent: The agent of the run. Only where the run was started with an object: the same one.
        benchmark: The benchmark of the run. Only where the run was started with an object: the same one.
        runner: The provider of its environments. Only where the run was started with an object: the same one.
        retry_errors: Retry trials that ended in an error.
    """

    agent: Agent | type[Agent]
    benchmark: Benchmark
    runner: EnvironmentProvider
    retry_errors: bool


class TaskOptions(TypedDict, total=False):
    """Which tasks, in which environments.

    Attributes:
        split: A part of the benchmark, where it has several.
        tasks: Only this task; may be repeated.
        filter: Only tasks whose id contains TEXT.
        exact: With --filter: TEXT is the whole id.
        categories: Only tasks of this category; may be repeated: of all of them.
        tags: Only tasks with this tag; may be repeated: with all of them.
        exclude: A file of task ids to leave out, one a line.
        after: Only tasks made from changes after this day, such as a model's training cutoff.
        limit: At most N tasks, after all other choices.
        runner: The provider of environments: local (bubblewrap), docker (containers), or a plugin's.
        image: With --runner docker: the image, instead of the benchmark's own.
        image_map: With --runner docker: a JSON or YAML file of images to use instead of others: {name: name}.
        force_build: With --runner docker: build a task's image from its Dockerfile, also where a ready image is
            named.
        controls: Control pairs: test runs with altered expectations, which a correct submission fails; 0 disables.
        verifier: Where verifiers of Harbor's tasks run: as the task says, or in an environment of their own, which
            has the task's artifacts and nothing else of the agent's.
        isolation: Isolate local environments from this machine; `off` is unsafe. [default: on]
    """

    split: str | None
    tasks: Sequence[str]
    filter: str | None
    exact: bool
    categories: Sequence[str]
    tags: Sequence[str]
    exclude: Sequence[str] | Path | str
    after: str | None
    limit: int | None
    runner: str | EnvironmentProvider
    image: str | None
    image_map: Mapping[str, str] | Path | str
    force_build: bool
    controls: int
    verifier: Literal["task", "separate"]
    isolation: bool


class RunOptions(CommonOptions, TaskOptions, total=False):
    """Options of `run`: those of ``proctor bench run``.

    Attributes:
        name: A name for the run, which commands take where they take its id.
        run_tags: A tag of the run, to find it by; may be repeated.
        note: A note that is kept with the run.
        mode: One agent, or a pod of agents that h2 runs.
        agent: claude_code, codex, gemini, pi, opencode, copilot, mini_swe_agent, qwen, droid, kimi, cline,
            openhands, aider, command, oracle, nop, or a plugin's. [default: claude_code; with --mode h2: h2_pod]
        command: With --agent command: the command line to run in the environment (shell quoting).
        system_prompt: Text that replaces the system prompt of the agent's program.
        append_system_prompt: Text appended to the system prompt of the agent's program.
        allowed_tools: The tools that the model is offered, as Bash,Read. [default: all]
        effort: Reasoning effort, for agents with such a setting: low, medium, high, or another level that the
            agent's program has. [default: the program's own]
        agent_env: A variable for the agent's program; may be repeated. It is stored with the run: no secrets.
        model: A model id or short name; NAME/MODEL of a --provider; script:FILE; replay:RUN.
        providers: Base URL of a provider: anthropic, openai, gemini, or a name of your own for a server with
            OpenAI's API, whose key is in NAME_API_KEY; may be repeated.
        preset: The preset of the agents' sandboxes: a name, or a folder. [default: empty; with --mode h2: opus]
        pod_template: With --mode h2: a pod template of the preset, or a file. [default: benchmark]
        variables: With --mode h2: a variable of the template; may be repeated.
        trials: Trials of each task.
        shuffle: Shuffle the tasks with this seed.
        concurrency: Agents running at once.
        grade_concurrency: Graders running at once. [default: as many as CPUs]
        timeout: Agent timeout per task. [default: the benchmark's own]
        one_conversation: In a task of several steps, resume the conversation of the step before; otherwise each
            step begins anew.
        max_turns: Maximum model requests per trial; not for pods.
        max_cost_per_task: Cost limit per trial.
        network: Network access of agents. [default: the benchmark's own]
        memory: Memory limit of an agent's environment, as 4GB. [default: the task's, or 8GiB]
        processes: Process limit of an agent's environment. [default: the task's, or 4096]
        disk: Disk limit of an agent's environment. [default: the task's, or 20GiB]
        gpus: With --runner docker: GPUs of an agent's environment. [default: as many as the task needs]
        web: Allow tools that the provider executes: web search and fetch, hosted MCP, code execution.
    """

    name: str | None
    run_tags: Mapping[str, str]
    note: str | None
    mode: Literal["baseline", "h2"]
    agent: str | Agent | type[Agent] | None
    command: Sequence[str] | str
    system_prompt: str | None
    append_system_prompt: str | None
    allowed_tools: Sequence[str] | str
    effort: str | None
    agent_env: Mapping[str, str]
    model: str | None
    providers: Mapping[str, str]
    preset: str | None
    pod_template: str | None
    variables: Mapping[str, str]
    trials: int
    shuffle: int | None
    concurrency: int
    grade_concurrency: int | None
    timeout: float | None
    one_conversation: bool
    max_turns: int
    max_cost_per_task: float | None
    network: Literal["none", "model", "open"] | None
    memory: int | str | None
    processes: int | None
    disk: int | str | None
    gpus: int | None
    web: bool


class EvaluateOptions(TaskOptions, total=False):
    """Options of `evaluate` and `validate`: those of ``proctor bench eval``.

    Attributes:
        image_disk: With --runner docker: the disk space that pulled images may take, such as 40GB.
        executor: Where agents and graders run: on this machine, or on the nodes of a Ray cluster.
        address: With --executor ray: the cluster. [default: the one that this machine is a node of]
        node_slots: With --executor ray: agents (of `eval` and `validate`: graders) running at once on each node.
            [default: --concurrency, or --jobs]
        insecure_cluster: With --executor ray: allow a cluster without token authentication.
        timeout: Timeout of each test run. [default: the benchmark's own]
        jobs: Tasks graded at the same time.
        artifacts: Where test results and logs are stored.
        keep_artifacts: Keep the graded trees there too.
        repair: Where a suite's test program has a linter: let it repair what the patch touched; memory: only count
            what it would do.
        repair_max_iters: Maximum repair iterations.
        determinism_runs: Run the tests after the patch N times. [default: the suite's, or 1; `validate`: 2]
        cache: Reuse cached verdicts.
    """

    image_disk: int | str | None
    executor: Literal["local", "ray"]
    address: str | None
    node_slots: int | None
    insecure_cluster: bool
    timeout: float | None
    jobs: int
    artifacts: Path | str
    keep_artifacts: bool
    repair: Literal["off", "memory", "write"]
    repair_max_iters: int
    determinism_runs: int | None
    cache: bool
