"""The local model proxy that every agent talks through: it meters, prices, limits, records and replays.

A `Gateway` listens, has one backend (a provider, a recording, a script) and opens a `Session` for each attempt.
"""

from proctor.gateway.backend import SessionSpec
from proctor.gateway.budget import Ledger
from proctor.gateway.cassette import read_cassette
from proctor.gateway.events import Answered, Diverged, LimitHit, SessionEvent, Trouble
from proctor.gateway.gateway import Gateway
from proctor.gateway.meter import ConversationUsage, SessionUsage
from proctor.gateway.player import ScriptBackend
from proctor.gateway.prices import Prices
from proctor.gateway.redact import Redactor, Secret
from proctor.gateway.replay import ReplayBackend
from proctor.gateway.script import parse_script, read_script
from proctor.gateway.session import Session
from proctor.gateway.upstream import Auth, RetryPolicy, Upstream

__all__ = [
    "Answered",
    "Auth",
    "ConversationUsage",
    "Diverged",
    "Gateway",
    "Ledger",
    "LimitHit",
    "Prices",
    "Redactor",
    "ReplayBackend",
    "RetryPolicy",
    "ScriptBackend",
    "Secret",
    "Session",
    "SessionEvent",
    "SessionSpec",
    "SessionUsage",
    "Trouble",
    "Upstream",
    "parse_script",
    "read_cassette",
    "read_script",
]
