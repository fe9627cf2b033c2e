"""As much HTTP/1.1 as the gateway needs, and no more: a request costs it a fraction of a millisecond.

Bytes are parsed by llhttp, the parser of Node.js. Above it are plain `asyncio` protocols: a server that answers with
whatever its handler writes, and a client that keeps connections to one place open.
"""

from proctor.gateway.http.client import Broken, Client, Response
from proctor.gateway.http.server import Answer, Request, Server

__all__ = ["Answer", "Broken", "Client", "Request", "Response", "Server"]
