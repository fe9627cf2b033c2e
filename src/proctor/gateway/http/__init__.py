"""The part of HTTP/1.1 that the gateway needs, fast: a request takes a fraction of a millisecond.

Bytes are parsed by llhttp, the parser of Node.js. On top of it are plain `asyncio` protocols: a server that sends what
its handler writes, and a client with a pool of connections to one host.
"""

from proctor.gateway.http.client import HttpClient, HttpConnectionError, HttpResponse, NotConnectedError
from proctor.gateway.http.server import HttpRequest, HttpResponseWriter, HttpServer

__all__ = [
    "HttpClient",
    "HttpConnectionError",
    "HttpRequest",
    "HttpResponse",
    "HttpResponseWriter",
    "HttpServer",
    "NotConnectedError",
]
