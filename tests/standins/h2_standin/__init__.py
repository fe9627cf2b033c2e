"""A stand-in for h2 that needs no model: real processes, real sockets, real files, scripted behaviour.

It does what h2 0.3 does as far as its users can see: an agent is a daemon that leads its own session and outlives the
command that started it; it runs a child on a terminal of its own; the child starts processes that leave its session
and survive ``h2 stop``; a daemon that is killed leaves its socket behind. Directories, file names, socket protocol and
messages are h2's own.

Commands: version, whoami, run, pod launch|stop, status, list, stop, send, show, handle-hook, role check.

What a claude_code agent does is scripted. ``H2_STANDIN`` names a JSON file, or ``standin.json`` in the H2_DIR is one;
every key is optional:

    ready_seconds    how long until the agent is idle for the first time (0.05); null: never
    child            shell command to run as the agent, instead of one that starts `grandchildren` and reads its input
    grandchildren    how many processes the child starts in sessions of their own (1)
    ignore_term      daemon, child and grandchildren ignore SIGTERM and SIGHUP (false)
    fail             the daemon dies with this message before it opens its socket
    hang             the daemon takes connections and never replies (false)
    ignore_stop      the daemon says that it will stop, and does not (false)
    stop_seconds     how long a polite stop takes (0.05)
    status_seconds   how long the daemon takes to say how the agent is, as with a git that is slow (0)
    queue_seconds    how long a message waits in the queue although the agent is idle (0)
    swallow          the Enter behind a message is taken for a part of it; it stands there until Enter comes alone
    claude           run `claude` from PATH as the child, as h2 does: it reports by its hooks what it does (false)
    turn             what follows a message: a list of steps, each with
                       after     seconds to wait first (0)
                       hook      a hook event to go through, with its `payload`
                       run       a shell command to run in the agent's working directory
                       state     [state, sub-state] to fall into, as after an error of the provider
                       message   what the status says about that error
                       die       the daemon is killed (false)
    agents           the same keys for single agents, by name

The default turn is UserPromptSubmit, then Stop. A false idle after a compaction, for example, is

    {"turn": [{"hook": "UserPromptSubmit"}, {"hook": "PreCompact"},
              {"hook": "SessionStart", "payload": {"source": "compact"}},
              {"after": 5, "hook": "PreToolUse", "payload": {"tool_name": "Bash"}}, {"hook": "Stop"}]}

Generic agents run the command of their role and are active or idle by its output, as with h2.
"""
