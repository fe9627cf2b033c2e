"""Who may read the pages: this machine, under its own name; or, from elsewhere, whoever has the access token."""

import hmac
import re
import secrets
from typing import Final

from aiohttp import web

LOOPBACK: Final = "127.0.0.1"
_COOKIE: Final = "proctor_token"
_PARAMETER: Final = "token"
# With a port, whatever it is: an ssh tunnel may begin at another one than ours. Pages of other sites have other names.
_OWN_NAMES: Final = re.compile(r"(?:127\.0\.0\.1|localhost|\[::1\]):\d{1,5}", re.IGNORECASE)


class Access:
    """What a request must bring. Without a token only loopback is served."""

    def __init__(self, token: str | None = None) -> None:
        self.token = token

    def refusal(self, request: web.Request) -> tuple[int, str] | None:
        """Why a request is refused: the status and a sentence; None: it is not."""
        if self.token is None:
            if _OWN_NAMES.fullmatch(request.headers.get("Host", "")):
                return None
            # DNS rebinding: a page under another name that resolves to this address could read ours.
            return 421, (
                "This server listens on localhost only (127.0.0.1). From another machine, use a tunnel "
                "(ssh -L 8707:127.0.0.1:PORT HOST, then http://localhost:8707/), or start it with --host."
            )
        given = request.cookies.get(_COOKIE) or request.query.get(_PARAMETER, "")
        if hmac.compare_digest(given.encode(), self.token.encode()):
            return None
        return (
            401,
            "This server needs the access token: open the address that `proctor view` printed, with ?token=… in it.",
        )

    def redirect(self, request: web.Request) -> web.Response | None:
        """Who comes with the token in the address gets it as a cookie, and the address without it."""
        if self.token is None or _PARAMETER not in request.query:
            return None
        rest = request.rel_url.without_query_params(_PARAMETER)
        response = web.Response(status=303, headers={"Location": str(rest)})
        response.set_cookie(_COOKIE, self.token, httponly=True, samesite="Strict", path="/")
        return response


def new_token() -> str:
    """A token that nobody guesses."""
    return secrets.token_urlsafe(24)
