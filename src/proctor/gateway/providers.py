"""Several providers behind one gateway: each dialect's requests go to the provider whose dialect it is."""

from collections.abc import Mapping
from typing import Final

from proctor.core.causes import Cause
from proctor.gateway.backend import (
    NO_RETRY_HEADERS,
    Backend,
    BackendReply,
    GatewaySessionSpec,
    IncomingRequest,
    Responder,
    json_reply,
)
from proctor.gateway.dialects import MESSAGES
from proctor.gateway.dialects.base import FINAL_STATUS
from proctor.gateway.events import GatewayFailure
from proctor.gateway.model_call import ModelCall
from proctor.gateway.upstream import Upstream

# The variable that holds the key of each provider.
KEY_VARIABLES: Final = {
    "anthropic": "ANTHROPIC_API_KEY",
    "openai": "OPENAI_API_KEY",
    "gemini": "GEMINI_API_KEY",
}


class Providers(Backend, Responder):
    """Forwards to one of several providers.

    Args:
        upstreams: by the name that dialects have for their provider.
    """

    def __init__(self, upstreams: Mapping[str, Upstream]) -> None:
        self.upstreams = dict(upstreams)
        self.name = ", ".join(upstream.name for upstream in self.upstreams.values())
        self.secrets = tuple(secret for upstream in self.upstreams.values() for secret in upstream.secrets)
        self.passes_login = any(upstream.passes_login for upstream in self.upstreams.values())

    def responder(self, spec: GatewaySessionSpec) -> Responder:
        """This object: providers have no state per session."""
        return self

    async def respond(self, call: ModelCall, conversation: str, incoming: IncomingRequest) -> BackendReply:
        """Forward a model request to the provider of its dialect."""
        upstream = self.upstreams.get(call.dialect.provider)
        if upstream is not None:
            return await upstream.respond(call, conversation, incoming)
        provider = call.dialect.provider
        message = (
            f"no_provider: the agent asks in the dialect {call.dialect.name}, and there is no key for {provider}; "
            f"set {KEY_VARIABLES.get(provider, 'its key')}, or give --provider {provider}=URL"
        )
        status = call.dialect.refusal_status(FINAL_STATUS)
        reply = json_reply(status, call.dialect.error_body(status, message), headers=NO_RETRY_HEADERS)
        reply.failure = GatewayFailure(cause=Cause.BAD_LOGIN, message=message)
        return reply

    async def respond_other(self, incoming: IncomingRequest) -> BackendReply:
        """Forward any other request to the provider that its headers or its path name."""
        upstream = self.upstreams.get(_provider_of(incoming))
        if upstream is None:
            message = f"{incoming.method} {incoming.path.partition('?')[0]} has no provider here"
            return json_reply(404, MESSAGES.error_body(404, message))
        return await upstream.respond_other(incoming)

    async def close(self) -> None:
        """Close all connections."""
        for upstream in self.upstreams.values():
            await upstream.close()


def _provider_of(incoming: IncomingRequest) -> str:
    if "anthropic-version" in incoming.headers or "x-api-key" in incoming.headers or "/messages" in incoming.path:
        return "anthropic"
    is_google = "x-goog-api-key" in incoming.headers or ":" in incoming.path.partition("?")[0]
    return "gemini" if is_google else "openai"
