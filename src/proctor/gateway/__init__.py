"""The local model proxy between agents and the provider: it meters, prices, limits, records and replays.

A `Gateway` listens, has one backend (a provider, a recording, a script) and opens a `GatewaySession` per attempt.
"""

from proctor.gateway.backend import GatewaySessionSpec
from proctor.gateway.budget import BudgetCopy, RunBudget
from proctor.gateway.events import BudgetLimitHit, ExchangeFinished, GatewayEvent, GatewayFailure, ReplayDivergence
from proctor.gateway.gateway import Gateway
from proctor.gateway.meter import ConversationUsage, GatewayUsage
from proctor.gateway.prices import Prices
from proctor.gateway.providers import Providers
from proctor.gateway.recording import load_recording
from proctor.gateway.redact import Redactor, Secret
from proctor.gateway.replay_backend import ReplayBackend
from proctor.gateway.script import parse_script, read_script
from proctor.gateway.script_backend import ScriptBackend
from proctor.gateway.session import GatewaySession
from proctor.gateway.upstream import ProviderAuth, RetryPolicy, Upstream

__all__ = [
    "BudgetCopy",
    "BudgetLimitHit",
    "ConversationUsage",
    "ExchangeFinished",
    "Gateway",
    "GatewayEvent",
    "GatewayFailure",
    "GatewaySession",
    "GatewaySessionSpec",
    "GatewayUsage",
    "Prices",
    "ProviderAuth",
    "Providers",
    "Redactor",
    "ReplayBackend",
    "ReplayDivergence",
    "RetryPolicy",
    "RunBudget",
    "ScriptBackend",
    "Secret",
    "Upstream",
    "load_recording",
    "parse_script",
    "read_script",
]
