"""As much HTTP/1.1 as the gateway needs, and no more: a request costs it a fraction of a millisecond.

Bytes are parsed by llhttp, the parser of Node.js. Above it are plain `asyncio` protocols: a server that answers with
whatever its handler writes, and a client that keeps connections to one place open.
"""

from proctor.gateway.http.client import HttpClient, HttpConnectionError, HttpResponse
from proctor.gateway.http.server import HttpRequest, HttpResponseWriter, HttpServer

__all__ = ["HttpClient", "HttpConnectionError", "HttpRequest", "HttpResponse", "HttpResponseWriter", "HttpServer"]
