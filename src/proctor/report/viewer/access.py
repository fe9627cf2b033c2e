"""Who may read the pages: this machine, under its own name; or, from elsewhere, whoever has the access token."""

import hashlib
import hmac
import re
import secrets
from typing import Final

from aiohttp import web

LOOPBACK: Final = "127.0.0.1"
_PARAMETER: Final = "token"
# With any port, or none: an ssh tunnel may begin at another one than ours. Pages of other sites have other names.
_OWN_NAMES: Final = re.compile(r"(?:127\.0\.0\.1|localhost|\[::1\])(?::\d{1,5})?", re.IGNORECASE)


class Access:
    """What a request must bring. Without a token only loopback is served."""

    def __init__(self, token: str | None = None) -> None:
        self.token = token
        # Browsers keep cookies by host, whatever the port: each server has one of its own, and an old one is in no way.
        self._cookie = f"proctor_{hashlib.sha256((token or '').encode()).hexdigest()[:12]}"

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
        if request.path.startswith("/static/"):
            return None  # the looks of the page that asks for the token; nothing in it is anybody's
        given = (request.cookies.get(self._cookie, ""), request.query.get(_PARAMETER, ""))
        if any(hmac.compare_digest(one.encode("utf-8", "replace"), self.token.encode()) for one in given):
            return None
        sentence = "open the address that `proctor view` printed, with ?token=… in it, or give the token here."
        return 401, f"This server needs its access token: {sentence}"

    def redirect(self, request: web.Request) -> web.Response | None:
        """Who comes with the token in the address gets it as a cookie, and the address without it."""
        if self.token is None or _PARAMETER not in request.query:
            return None
        rest = request.rel_url.without_query_params(_PARAMETER)
        response = web.Response(status=303, headers={"Location": str(rest)})
        # Lax: a link that was shared in a chat opens for whoever has the cookie. Nothing here can be changed by one.
        response.set_cookie(self._cookie, self.token, httponly=True, samesite="Lax", path="/")
        return response


def new_token() -> str:
    """A token that nobody guesses."""
    return secrets.token_urlsafe(24)
