"""The commands."""

import argparse
import json
import os
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any, NoReturn

from h2_standin.agent import now
from h2_standin.directory import H2Error, Launch, agent_socket, find_socket, h2_directory, load_pod, load_role
from h2_standin.quick import VERSION
from h2_standin.wire import listens, request

ALLOW = {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}}


class Parser(argparse.ArgumentParser):
    """Every failure of h2 has exit code 1, wrong usage too."""

    def error(self, message: str) -> NoReturn:
        raise H2Error(message)


def main() -> None:
    try:
        arguments = _parser().parse_args()
        arguments.handle(arguments)
    except (H2Error, OSError) as error:
        sys.stderr.write(f"Error: {error}\nerror: {error}\n")
        sys.exit(1)


def _version(_: argparse.Namespace) -> None:
    print(VERSION)


def _whoami(_: argparse.Namespace) -> None:
    print(_actor())


def _run(arguments: argparse.Namespace) -> None:
    launch = Launch(
        name=arguments.name,
        role=arguments.role,
        pod=arguments.pod or "",
        variables=_pairs(arguments.var),
        overrides=_pairs(arguments.override),
    )
    h2 = h2_directory()
    if listens(agent_socket(h2, launch.name)):
        raise H2Error(f'agent "{launch.name}" is already running')
    _launch(h2, launch)
    _say(f"Agent \"{launch.name}\" started (detached). Use 'h2 attach {launch.name}' to connect.")


def _pod_launch(arguments: argparse.Namespace) -> None:
    h2 = h2_directory()
    pod, launches = load_pod(h2, arguments.template, _pairs(arguments.var), arguments.pod)
    for launch in launches:
        if listens(agent_socket(h2, launch.name)):
            _say(f"  {launch.name} already running")
            continue
        _launch(h2, launch)
        _say(f"  {launch.name} started")
    _say(f'Pod "{pod}" launched with {len(launches)} agents')


def _pod_stop(arguments: argparse.Namespace) -> None:
    stopped = 0
    for path, info in _responding(h2_directory()):
        if info.get("pod") == arguments.pod:
            request(path, {"type": "stop"})
            print(f"Stopped agent {info['name']}")
            stopped += 1
    print(
        f'Stopped {stopped} agents and 0 bridges in pod "{arguments.pod}"'
        if stopped
        else f'No agents or bridges found in pod "{arguments.pod}"'
    )


def _status(arguments: argparse.Namespace) -> None:
    try:
        reply = request(find_socket(h2_directory(), arguments.name), {"type": "status"})
    except (OSError, ValueError) as error:
        raise H2Error(f'cannot connect to agent "{arguments.name}"') from error
    print(json.dumps(reply["agent"], indent=2))


def _stop(arguments: argparse.Namespace) -> None:
    request(find_socket(h2_directory(), arguments.name), {"type": "stop"})
    print(f"Stopped {arguments.name}.")


def _send(arguments: argparse.Namespace) -> None:
    body = Path(arguments.file).read_text(encoding="utf-8") if arguments.file else " ".join(arguments.words)
    message = {"type": "send", "priority": arguments.priority, "from": _actor(), "body": body, "raw": arguments.raw}
    print(request(find_socket(h2_directory(), arguments.name), message)["message_id"])


def _show(arguments: argparse.Namespace) -> None:
    for path in sorted((h2_directory() / "sockets").glob("agent.*.sock")):
        try:
            message = request(path, {"type": "show", "message_id": arguments.id})["message"]
        except (H2Error, OSError):
            continue
        for key in ("id", "from", "priority", "status", "file_path", "created_at", "delivered_at"):
            if key in message:
                print(f"{key.split('_')[0].capitalize() if key != 'id' else 'ID'}: {message[key]}")
        return
    raise H2Error(f"message not found: {arguments.id}")


def _list(_: argparse.Namespace) -> None:
    agents = _responding(h2_directory())
    if not agents:
        print("No running agents.")
        return
    print("Agents")
    for _path, info in agents:
        label = info["state_display_text"]
        print(f"  ● {info['name']} {info['cwd']} ({info['role']}) {info['command']} — {label}, up {info['uptime']}")


def _handle_hook(arguments: argparse.Namespace) -> None:
    payload = json.load(sys.stdin)
    event = payload.get("hook_event_name")
    agent = arguments.agent or os.environ.get("H2_ACTOR")
    if not event:
        raise H2Error("hook_event_name not found in payload")
    if not agent:
        raise H2Error("--agent is required (or set H2_ACTOR)")
    path = find_socket(h2_directory(), agent)
    request(path, {"type": "hook_event", "event_name": event, "payload": payload})
    if event != "PermissionRequest":
        print("{}")
        return
    forced = arguments.force_permission_request_result
    decision = {
        "tool_name": payload.get("tool_name", ""),
        "decision": forced or "ask_user",
        "reason": "",
        "processed_by": "forced" if forced else "none",
    }
    request(path, {"type": "hook_event", "event_name": "permission_decision", "payload": decision})
    print(json.dumps(ALLOW if forced == "allow" else {}))


def _role_check(arguments: argparse.Namespace) -> None:
    load_role(h2_directory(), Launch(name="check", role=arguments.name, variables=_pairs(arguments.var)))
    print(f'Role "{arguments.name}" is valid.')


def _daemon(arguments: argparse.Namespace) -> None:
    from h2_standin.daemon import run_daemon

    run_daemon(Path(arguments.session_dir))


def _launch(h2: Path, launch: Launch) -> None:
    role = load_role(h2, launch)
    harness = role.get("agent_harness") or "claude_code"
    profile = role.get("profile") or "default"
    if harness == "claude_code" and not (h2 / "claude-config" / profile).is_dir():
        raise H2Error(f'profile "{profile}" not found (missing {h2 / "claude-config" / profile})')
    directory = role.get("working_dir") or "."
    cwd = Path.cwd() if directory == "." else h2 / directory
    session = h2 / "sessions" / launch.name
    session.mkdir(parents=True, exist_ok=True)
    identity = str(uuid.uuid4())
    metadata = {
        "agent_name": launch.name,
        "session_id": identity,
        "role": launch.role,
        "pod": launch.pod,
        "pod_index": launch.pod_index,
        "harness_type": harness,
        "profile": profile,
        "harness_session_id": identity,
        "command": role.get("agent_harness_command") if harness == "generic" else "claude",
        "model": role.get("agent_model") or "",
        "claude_permission_mode": role.get("claude_permission_mode") or "",
        "cwd": str(cwd),
        "instructions": role.get("instructions") or "",
        "additional_dirs": role.get("additional_dirs") or [],
        "started_at": now(),
    }
    (session / "session.metadata.json").write_text(json.dumps(metadata, indent=2), encoding="utf-8")
    environ = {key: value for key, value in os.environ.items() if key != "CLAUDECODE"} | {"H2_DIR": str(h2)}
    if launch.pod:
        environ["H2_POD"] = launch.pod
    with (session / "daemon.stderr.log").open("a") as log:
        daemon = subprocess.Popen(
            [sys.executable, "-IS", sys.argv[0], "_daemon", "--session-dir", str(session)],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            cwd=cwd,
            env=environ,
        )
    path = agent_socket(h2, launch.name)
    deadline = time.monotonic() + 30  # the real one waits 5 s, but it is no Python program on a busy machine
    while not listens(path):
        if time.monotonic() > deadline or daemon.poll() is not None:
            raise H2Error(f"daemon did not start (socket {path} not found)")
        time.sleep(0.01)


def _responding(h2: Path) -> list[tuple[Path, dict[str, Any]]]:
    found = []
    for path in sorted((h2 / "sockets").glob("agent.*.sock")):
        try:
            found.append((path, request(path, {"type": "status"}, timeout=2)["agent"]))
        except OSError:
            print(f"  x {path.name.split('.')[1]} (not responding)")
    return found


def _actor() -> str:
    return os.environ.get("H2_ACTOR") or os.environ.get("USER") or "unknown"


def _pairs(values: list[str]) -> dict[str, str]:
    return dict(value.split("=", 1) for value in values)


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="h2")
    commands = parser.add_subparsers(required=True)

    def command(name: str, handle: Any, parent: Any = commands) -> argparse.ArgumentParser:
        made: argparse.ArgumentParser = parent.add_parser(name)
        made.set_defaults(handle=handle)
        return made

    command("version", _version)
    command("whoami", _whoami)
    command("list", _list)
    run = command("run", _run)
    run.add_argument("name")
    run.add_argument("--role", default="default")
    run.add_argument("--pod")
    run.add_argument("--override", action="append", default=[])
    pods = parser_of_group(commands, "pod")
    launch = command("launch", _pod_launch, pods)
    launch.add_argument("template")
    launch.add_argument("--pod")
    command("stop", _pod_stop, pods).add_argument("pod")
    check = command("check", _role_check, parser_of_group(commands, "role"))
    check.add_argument("name")
    for each in (run, launch):
        each.add_argument("--detach", action="store_true")
    for each in (run, launch, check):
        each.add_argument("--var", action="append", default=[])
    for name, handle in (("status", _status), ("stop", _stop)):
        command(name, handle).add_argument("name")
    command("show", _show).add_argument("id")
    send = command("send", _send)
    send.add_argument("name")
    send.add_argument("words", nargs="*")
    send.add_argument("--priority", default="normal")
    send.add_argument("--file")
    send.add_argument("--raw", action="store_true")
    hook = command("handle-hook", _handle_hook)
    hook.add_argument("--agent")
    hook.add_argument("--force-permission-request-result", choices=["allow", "deny", "ask_user"])
    command("_daemon", _daemon).add_argument("--session-dir", required=True)
    return parser


def parser_of_group(commands: Any, name: str) -> Any:
    return commands.add_parser(name).add_subparsers(required=True)
