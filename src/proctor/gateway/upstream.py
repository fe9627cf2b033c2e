"""The backend that forwards requests to a provider: adds the key, retries errors, relays bytes as they arrive."""

import asyncio
import email.utils
import itertools
import random
import re
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from enum import StrEnum
from typing import Final
from urllib.parse import unquote

import msgspec

from proctor.core.causes import Cause
from proctor.core.errors import UsageError
from proctor.core.formatting import truncate_line
from proctor.core.record import Record
from proctor.gateway.backend import (
    JSON_HEADERS,
    NO_RETRY_HEADERS,
    Backend,
    BackendReply,
    GatewaySessionSpec,
    IncomingRequest,
    Responder,
    Sleep,
    StreamBroken,
    TimedChunk,
    is_model_list,
    is_token_count,
    json_reply,
    synthetic_reply,
)
from proctor.gateway.dialects import MESSAGES
from proctor.gateway.dialects.base import OVERLOADED, RETRYABLE_STATUSES, Dialect
from proctor.gateway.events import GatewayFailure
from proctor.gateway.http import HttpClient, HttpConnectionError, HttpResponse, NotConnectedError
from proctor.gateway.model_call import ModelCall
from proctor.gateway.redact import CREDENTIAL_HEADERS, Redactor, Secret
from proctor.gateway.secret_mask import SecretMask, mask_bytes, mask_text, secret_spellings

DEFAULT_BASE_URL: Final = "https://api.anthropic.com"
NO_CONNECTION: Final = 0
_UNAUTHORIZED: Final = 401
_AUTH_STATUSES: Final = frozenset({_UNAUTHORIZED, 402, 403})
_NOT_FOUND: Final = 404
_RATE_LIMITED: Final = 429
_FIRST_REDIRECT: Final = 300
_FIRST_ERROR: Final = 400
_SERVER_ERROR: Final = 500
_MAX_DETAIL: Final = 300
# Not elsewhere than at the start of the provider's message, or in members of the error: an error may quote what the
# agent sent.
_NO_CREDIT: Final = re.compile(
    rb'"message"\s*:\s*"Your credit balance is too low'
    rb'|"code"\s*:\s*"(?:insufficient_quota|billing_[a-z_]+)"|"reason"\s*:\s*"API_KEY_INVALID"'
)
_VERSION: Final = re.compile(r"^/v\d+[a-z0-9]*(?=/)")
_VERSIONED: Final = re.compile(r"/v\d+[a-z0-9]*$")
_CREDENTIAL_PARAMETERS: Final = frozenset({"key", "$key", "api_key", "api-key", "access_token", "oauth_token"})
_INVALID: Final = frozenset({400, 422})
_USAGE_OPTIONS: Final = b"stream_options"
# What servers say of a stream of events that do not call it one.
_UNNAMED_TYPES: Final = frozenset({"", "text/plain", "application/octet-stream", "application/x-ndjson"})
_MAX_ERROR_BYTES: Final = 1024 * 1024
_NOT_FORWARDED: Final = frozenset(
    {
        *("host", "content-length", "connection", "keep-alive", "transfer-encoding", "upgrade", "te", "trailer"),
        *("proxy-authorization", "proxy-connection", "accept-encoding", "content-encoding", "expect", "cookie"),
    }
)
_NOT_RETURNED: Final = frozenset(
    {
        *("connection", "keep-alive", "transfer-encoding", "content-encoding", "content-length", "set-cookie"),
        *("alt-svc", "strict-transport-security", "date", "server", "upgrade", "trailer", "proxy-authenticate"),
    }
)


class ProviderAuth(StrEnum):
    """How the gateway authenticates to the provider; with `PASS_THROUGH`, the agent does with its own login.

    A server of one's own may want no key: `NONE`.
    """

    API_KEY = "x-api-key"
    GOOGLE_API_KEY = "x-goog-api-key"
    BEARER = "bearer"
    PASS_THROUGH = "pass-through"  # noqa: S105 - the name of a mode
    NONE = "none"


class RetryPolicy(Record):
    """How often and how long the gateway retries before it relays an error to the client.

    Retried are 408, 409, 429, 5xx, 529 and failed connections, as long as the client has received no byte of a
    response. The wait doubles from `base_seconds` to `max_seconds`, with up to a quarter of jitter, and is at least
    what the provider asks for in `retry-after`. `total_seconds` limits the time of a request, all waits and tries
    together, after which it is not tried again; it is below the 300 s after which Claude Code gives up. With `tries` 1,
    errors are relayed unchanged.
    """

    tries: int = 8
    base_seconds: float = 0.5
    max_seconds: float = 32.0
    total_seconds: float = 240.0

    def wait(self, failures: int, waited: float, retry_after: float | None, jitter: float) -> float | None:
        """How long to wait after this many failures and this much waiting; None to give up."""
        if failures >= self.tries:
            return None
        own = min(self.base_seconds * 2 ** (failures - 1), self.max_seconds) * (1 + jitter / 4)
        wait = max(own, retry_after or 0.0)
        return wait if waited + wait <= self.total_seconds else None


class Upstream(Backend, Responder):
    """A provider that is reached over HTTP.

    Args:
        base_url: its address; the client's path is appended.
        versioned: the address has the API's version in it, as OpenAI's has, so the client's path must not; known by
            itself where the address ends with it.
        key: authenticates the gateway; the agent's own placeholder is dropped.
        idle_seconds: after this long without a byte, a response counts as cut.
        proxies: environment variables that may name a proxy.
    """

    def __init__(
        self,
        base_url: str = DEFAULT_BASE_URL,
        *,
        key: Secret | None = None,
        auth: ProviderAuth = ProviderAuth.API_KEY,
        versioned: bool = False,
        retry: RetryPolicy | None = None,
        idle_seconds: float = 600.0,
        proxies: Mapping[str, str] | None = None,
        sleep: Sleep = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        if auth not in {ProviderAuth.PASS_THROUGH, ProviderAuth.NONE} and key is None:
            raise UsageError("the gateway has no key for the provider", fix="set ANTHROPIC_API_KEY")
        self.base_url = self.name = base_url.rstrip("/")
        self.auth = auth
        self._versioned = versioned or _VERSIONED.search(self.base_url) is not None
        self.passes_login = auth is ProviderAuth.PASS_THROUGH
        self.secrets = () if key is None else (key.reveal(),)
        self._spellings = secret_spellings(self.secrets)
        self._auth = {} if key is None else _auth_headers(key.reveal(), auth)
        self._dropped = _NOT_FORWARDED if self.passes_login else _NOT_FORWARDED | CREDENTIAL_HEADERS
        self._retry = RetryPolicy() if retry is None else retry
        try:
            self._client = HttpClient(self.base_url, idle_seconds=idle_seconds, environ=proxies)
        except ValueError as error:
            raise UsageError(f"the address of the provider: {error}", fix="see docs/gateway.md") from None
        self._sleep = sleep
        self._jitter = jitter
        self._refuses_usage_options = False

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()

    def responder(self, spec: GatewaySessionSpec) -> Responder:
        """This object: the provider has no state per session."""
        return self

    async def respond(self, call: ModelCall, conversation: str, incoming: IncomingRequest) -> BackendReply:
        """Forward a model request."""
        asks_usage = call.hides_usage
        if asks_usage and self._refuses_usage_options:
            incoming, asks_usage = _without_usage_options(incoming, call.dialect), False
        return await self._send(incoming, call.dialect, stream=call.stream, asks_usage=asks_usage)

    async def respond_other(self, incoming: IncomingRequest) -> BackendReply:
        """Forward any other request, unless it would spend on our key what cannot be metered, or read what is stored.

        An account's files, batches and stored conversations are no part of a task.
        """
        path = incoming.path.partition("?")[0]
        harmless = is_model_list(incoming.method, path) or (incoming.method == "POST" and is_token_count(path))
        if not self.passes_login and not harmless:
            message = f"{incoming.method} {path} is not forwarded: it is no request that the gateway meters"
            return json_reply(403, MESSAGES.error_body(403, message), headers=NO_RETRY_HEADERS)
        return await self._send(incoming, MESSAGES)

    async def _send(
        self, incoming: IncomingRequest, dialect: Dialect, *, stream: bool = False, asks_usage: bool = False
    ) -> BackendReply:
        """Send a request, and try again after errors; `asks_usage`: for a usage that the client does not ask for."""
        errors: list[int] = []
        waited = 0.0
        path = _VERSION.sub("", incoming.path) if self._versioned else incoming.path
        if not self.passes_login and "?" in path:
            path = _without_credentials(path)
        if path != incoming.path:
            incoming = msgspec.structs.replace(incoming, path=path)
        while True:
            started = time.monotonic()
            response, reason = await self._send_once(incoming)
            waited += time.monotonic() - started
            if response is not None and response.status < _FIRST_REDIRECT:
                return self._relay(dialect, response, tuple(errors), stream=stream)
            status = NO_CONNECTION if response is None else response.status
            body = b"" if response is None else await _error_body(response)
            headers: Mapping[str, str] = {} if response is None else response.headers
            if asks_usage and status in _INVALID and _USAGE_OPTIONS in body:
                # A server that does not know them: it reports the usage unasked, or nobody knows it.
                self._refuses_usage_options = True
                incoming, asks_usage = _without_usage_options(incoming, dialect), False
                continue
            wait = None
            if _is_retryable(status, headers) and not _NO_CREDIT.search(body):
                wait = self._retry.wait(len(errors) + 1, waited, _retry_after_seconds(headers), self._jitter())
            if wait is None:
                return self._error_reply(
                    dialect, status, headers, body, asked=incoming.headers, reason=reason, errors=tuple(errors)
                )
            errors.append(status)
            waited += wait
            await self._sleep(wait)

    async def _send_once(self, incoming: IncomingRequest) -> tuple[HttpResponse | None, str]:
        headers = self._forwarded_headers(incoming.headers)
        await incoming.sends.before_send()
        try:
            response = await self._client.request(
                incoming.method, incoming.path, headers, incoming.body, before_resend=incoming.sends.before_resend
            )
        except HttpConnectionError as error:
            incoming.sends.request_failed(sent=not isinstance(error, NotConnectedError))
            return None, str(error)
        incoming.sends.response_received(error=response.status >= _FIRST_REDIRECT)
        return response, ""

    def _forwarded_headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        forwarded = _filtered_headers(headers, self._dropped)
        # Usage is read from the response, so it must not be compressed.
        forwarded["accept-encoding"] = "identity"
        forwarded |= self._auth
        return forwarded

    def _relay(
        self, dialect: Dialect, response: HttpResponse, errors: tuple[int, ...], *, stream: bool
    ) -> BackendReply:
        headers = self._returned_headers(response.headers)
        if stream and headers.get("content-type", "").partition(";")[0].strip().lower() in _UNNAMED_TYPES:
            headers["content-type"] = "text/event-stream"
        length = response.headers.get("content-length")
        if length is not None and "content-encoding" not in response.headers:
            headers["content-length"] = length
        events = headers.get("content-type", "").lower().startswith("text/event-stream")
        mask = SecretMask(self._spellings, dialect.text_members if events else None)
        return BackendReply(
            response.status,
            headers,
            _response_chunks(response, mask),
            errors,
            unread=lambda: _unread_chunks(response, mask),
            close=response.close,
        )

    def _returned_headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """The headers that the client gets; those that have our key in their name are dropped."""
        returned = _filtered_headers(headers, _NOT_RETURNED)
        if not self._may_have_key(returned):
            return returned
        return {
            name: mask_text(value, self._spellings)
            for name, value in returned.items()
            if not any(spelling.lower() in name.encode() for spelling in self._spellings)
        }

    def _may_have_key(self, headers: Mapping[str, str]) -> bool:
        """Whether any header has our key: most responses have it in none, and are searched once."""
        text = "\n".join(itertools.chain.from_iterable(headers.items())).encode("utf-8", "surrogateescape").lower()
        return any(spelling.lower() in text for spelling in self._spellings)

    def _error_reply(
        self,
        dialect: Dialect,
        status: int,
        headers: Mapping[str, str],
        body: bytes,
        *,
        asked: Mapping[str, str],
        reason: str,
        errors: tuple[int, ...],
    ) -> BackendReply:
        clean = Redactor(self.secrets)
        body = mask_bytes(body, self._spellings)
        returned = self._returned_headers(headers)
        final = self._retry.tries > 1 and _is_retryable(status, headers)
        if final or (status in _AUTH_STATUSES and not self.passes_login):
            returned |= NO_RETRY_HEADERS
            if status == OVERLOADED:
                # Older Claude Code retries a 529 whatever `x-should-retry` says, unless `retry-after` is long.
                returned["retry-after"] = "3600"
        detail = clean.redact_text(reason or body.decode("utf-8", "replace"))
        is_redirect = NO_CONNECTION < status < _FIRST_ERROR
        if is_redirect:
            detail = clean.redact_text(f"it redirects to {headers.get('location', 'another address')}")
        shown = 502 if status == NO_CONNECTION or is_redirect else status
        # Where an agent would try again after what is final here, it gets a status after which it does not.
        relayed = dialect.final_error_status(shown, asked) if self._retry.tries > 1 else shown
        if status == NO_CONNECTION:
            message = f"the provider cannot be reached: {detail}"
            reply = json_reply(relayed, dialect.error_body(relayed, message), headers={**returned, **JSON_HEADERS})
        elif relayed != status:
            message = f"the provider failed with status {status}: {truncate_line(detail, _MAX_DETAIL)}"
            reply = json_reply(relayed, dialect.error_body(relayed, message), headers=NO_RETRY_HEADERS)
        else:
            reply = synthetic_reply(status, returned, [TimedChunk(0, clean.redact_bytes(body))])
        reply.errors = errors
        reply.provider_status = None if relayed == status else status
        reply.failure = self._provider_error(status, detail, len(errors) + 1)
        return reply

    def _provider_error(self, status: int, detail: str, tries: int) -> GatewayFailure | None:
        excerpt = truncate_line(detail, _MAX_DETAIL)
        if status == _UNAUTHORIZED and self.passes_login:
            return None  # the agent may renew its own login and try again
        if status in _AUTH_STATUSES or _NO_CREDIT.search(detail.encode()):
            message = f"the provider refused the login with status {status}: {excerpt}"
            return GatewayFailure(cause=Cause.BAD_LOGIN, status=status, message=message)
        if status == _RATE_LIMITED:
            message = f"the provider limited the rate at {tries} tries in a row: {excerpt}"
            return GatewayFailure(cause=Cause.RATE_LIMITED, status=status, message=message)
        if status < _FIRST_ERROR and status != NO_CONNECTION:
            message = f"the provider's address is another one, as --provider must say: {excerpt}"
            return GatewayFailure(cause=Cause.BAD_LOGIN, status=status, message=message)
        if status == _NOT_FOUND:
            message = f"the provider has no such model for this login, or nothing at this address: {excerpt}"
            return GatewayFailure(cause=Cause.BAD_LOGIN, status=status, message=message)
        if status == NO_CONNECTION or status >= _SERVER_ERROR:
            what = "could not be reached" if status == NO_CONNECTION else f"failed with status {status}"
            message = f"the provider {what} at {tries} tries in a row: {excerpt}"
            return GatewayFailure(cause=Cause.PROVIDER_ERROR, status=status or None, message=message)
        return None


def _without_usage_options(incoming: IncomingRequest, dialect: Dialect) -> IncomingRequest:
    return msgspec.structs.replace(incoming, body=dialect.without_usage_options(incoming.body))


def _auth_headers(key: str, auth: ProviderAuth) -> dict[str, str]:
    """The header that authenticates the gateway."""
    if not (key.isascii() and key.isprintable()):
        raise UsageError("the key for the provider contains a line break or another character that no key has")
    return {"authorization": f"Bearer {key}"} if auth is ProviderAuth.BEARER else {auth.value: key}


async def _response_chunks(response: HttpResponse, mask: SecretMask) -> AsyncGenerator[bytes, None]:
    try:
        async with aclosing(response.chunks()) as chunks:
            async for chunk in chunks:
                if clean := mask.feed(chunk):
                    yield clean
    except HttpConnectionError as error:
        if rest := mask.finish():
            yield rest
        raise StreamBroken(f"the provider's stream broke off: {error}") from error
    if rest := mask.finish():
        yield rest


async def _unread_chunks(response: HttpResponse, mask: SecretMask) -> AsyncGenerator[bytes, None]:
    async with aclosing(response.unread_chunks()) as chunks:
        async for chunk in chunks:
            if clean := mask.feed(chunk):
                yield clean
    if rest := mask.finish():
        yield rest


async def _error_body(response: HttpResponse) -> bytes:
    body = b""
    try:
        async with aclosing(response.chunks()) as chunks:
            async for chunk in chunks:
                body += chunk
                if len(body) > _MAX_ERROR_BYTES:
                    break
    except HttpConnectionError:
        return body  # an error whose body broke off is the same error
    finally:
        response.close()
    return body


def _filtered_headers(headers: Mapping[str, str], dropped: frozenset[str]) -> dict[str, str]:
    """All headers but those that are dropped and those that `connection` lists."""
    passed = {name: value for name, value in headers.items() if name not in dropped}
    for name in headers.get("connection", "").split(","):
        passed.pop(name.strip().lower(), None)
    return passed


def _is_retryable(status: int, headers: Mapping[str, str]) -> bool:
    match headers.get("x-should-retry"):
        case "true":
            return True
        case "false":
            return False
    return status in RETRYABLE_STATUSES or status >= _SERVER_ERROR or status == NO_CONNECTION


def _retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """How long a provider asks to be left alone: in seconds, in milliseconds, or until a date."""
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        try:
            return max(0.0, float(headers[name]) / unit)
        except (KeyError, ValueError):
            continue
    try:
        until = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
        return max(0.0, until.timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return None  # our own wait applies


def _without_credentials(path: str) -> str:
    """A path without the keys that its query may have: the gateway has its own."""
    name, _, query = path.partition("?")
    kept = [part for part in query.split("&") if unquote(part.partition("=")[0]).lower() not in _CREDENTIAL_PARAMETERS]
    return f"{name}?{'&'.join(kept)}" if kept else name
