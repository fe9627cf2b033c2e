"""Usage as the Messages API reports it."""

from typing import Any, Final

import msgspec

from proctor.core.result import Tokens
from proctor.gateway.dialects.base import count_of
from proctor.gateway.meter import UsageAccumulator
from proctor.gateway.prices import Usage

_PROMPT: Final = frozenset({"input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "cache_creation"})


class _CacheCreation(msgspec.Struct):
    ephemeral_5m_input_tokens: Any = None
    ephemeral_1h_input_tokens: Any = None


class _ServerTools(msgspec.Struct):
    web_search_requests: Any = None


class _WireTokenCounts(msgspec.Struct):
    """The provider's token counts, as in `usage` and in each of its iterations."""

    input_tokens: Any = None
    output_tokens: Any = None
    cache_creation_input_tokens: Any = None
    cache_read_input_tokens: Any = None
    cache_creation: _CacheCreation | None = None
    type: str | None = None
    model: str | None = None

    def tokens(self) -> Tokens:
        split = self.cache_creation or _CacheCreation()
        one_hour = count_of(split.ephemeral_1h_input_tokens) or 0
        written = count_of(self.cache_creation_input_tokens)
        if written is None:
            written = one_hour + (count_of(split.ephemeral_5m_input_tokens) or 0)
        one_hour = min(one_hour, written)
        return Tokens(
            input=count_of(self.input_tokens) or 0,
            output=count_of(self.output_tokens) or 0,
            cache_read=count_of(self.cache_read_input_tokens) or 0,
            cache_write_5m=written - one_hour,
            cache_write_1h=one_hour,
        )


class WireUsage(_WireTokenCounts):
    """The `usage` object of a message or of a message_delta event."""

    server_tool_use: _ServerTools | None = None
    speed: str | None = None
    inference_geo: str | None = None
    iterations: list[_WireTokenCounts] | None = None


class UsageReports:
    """The reports of one response. They are cumulative, so what a later one says replaces what an earlier one said."""

    def __init__(self, usage: UsageAccumulator) -> None:
        self._usage = usage
        self._merged = WireUsage()

    def update(self, reported: WireUsage | None, model: str | None = None, *, final: bool = False) -> None:
        """Add the usage of a message, a message_start or a message_delta; `final`: of all that has arrived."""
        if model:
            self._usage.model = model
        if reported is None:
            return
        # No request has an empty prompt: some servers that report it at the start write zeros at the end.
        counted = reported.tokens()
        unsaid = _PROMPT if counted.total == counted.output else frozenset()
        for name in WireUsage.__struct_fields__:
            value: Any = getattr(reported, name)
            if value is not None and name not in unsaid:
                setattr(self._merged, name, value)
        self._usage.report(self._total(), final=final)

    def _total(self) -> tuple[Usage, ...]:
        merged, model = self._merged, self._usage.model
        speed = self._usage.speed if merged.speed is None else merged.speed
        searches = count_of(merged.server_tool_use.web_search_requests) if merged.server_tool_use else 0
        by_model = {model: merged.tokens()}
        # The top level does not include what was sampled besides the response: server-side compaction, advisors.
        for extra in merged.iterations or ():
            if extra.type != "message":
                name = extra.model or model
                by_model[name] = by_model.get(name, Tokens()) + extra.tokens()
        return tuple(
            Usage(
                model=name,
                tokens=tokens,
                web_searches=(searches or 0) if name == model else 0,
                speed=speed,
                geo=merged.inference_geo,
            )
            for name, tokens in by_model.items()
        )
