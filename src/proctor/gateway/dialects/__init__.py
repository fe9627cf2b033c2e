"""The dialects that the gateway speaks: the HTTP APIs in which agents talk to their models.

`route` finds the dialect of a request by the last part of its path, and `DIALECTS` names them for recordings.
"""

from collections.abc import Mapping
from typing import Final

from proctor.gateway.dialects.base import Dialect, Route
from proctor.gateway.dialects.chat import ChatDialect
from proctor.gateway.dialects.gemini import GeminiDialect
from proctor.gateway.dialects.messages import MessagesDialect
from proctor.gateway.dialects.responses import ResponsesDialect

MESSAGES: Final = MessagesDialect()
CHAT: Final = ChatDialect()
RESPONSES: Final = ResponsesDialect()
GEMINI: Final = GeminiDialect()
DIALECTS: Final[Mapping[str, Dialect]] = {dialect.name: dialect for dialect in (MESSAGES, CHAT, RESPONSES, GEMINI)}

__all__ = ["CHAT", "DIALECTS", "GEMINI", "MESSAGES", "RESPONSES", "Dialect", "Route", "route"]


def route(method: str, path: str, query: str) -> Route | None:
    """The model request that this is, if it is one."""
    for dialect in DIALECTS.values():
        if (found := dialect.route(method, path, query)) is not None:
            return found
    return None
