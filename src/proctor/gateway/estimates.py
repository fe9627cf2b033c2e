"""Upper estimates of what a request used, where the provider's own count did not arrive, or not to the end.

No token is shorter than a byte, so a text has at most as many tokens as bytes.
"""

from typing import Final

from proctor.core.result import Tokens
from proctor.gateway.model_call import ModelCall
from proctor.gateway.prices import Usage

# What a provider may add to a prompt: its own instructions for the use of tools.
ADDED_PROMPT_TOKENS: Final = 1024
# What may have been generated that has not arrived: of a stream, some moments; of a whole response, most of it.
UNSEEN_STREAM_TOKENS: Final = 256
UNSEEN_BODY_TOKENS: Final = 1024


def unseen_tokens(*, stream: bool) -> int:
    """The output of a response of which nothing has arrived."""
    return UNSEEN_STREAM_TOKENS if stream else UNSEEN_BODY_TOKENS


def unreported_usage(call: ModelCall) -> Usage:
    """What a request without a response has used: its input, at the price of the class that it asks for."""
    prompt, output = call.size + ADDED_PROMPT_TOKENS, unseen_tokens(stream=call.stream)
    match call.dialect.cache_writes(call):
        case "1h":
            tokens = Tokens(cache_write_1h=prompt, output=output)
        case "5m":
            tokens = Tokens(cache_write_5m=prompt, output=output)
        case _:
            tokens = Tokens(input=prompt, output=output)
    return Usage(model=call.model, tokens=tokens, speed=call.speed, geo=call.geo, estimated=True)
