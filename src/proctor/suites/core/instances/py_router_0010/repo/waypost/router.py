from urllib.parse import unquote

from .errors import MethodNotAllowed, NotFound
from .patterns import INT, STATIC, build, compiled, parse


class Match:
    def __init__(self, handler, params, pattern):
        self.handler = handler
        self.params = params
        self.pattern = pattern


class _Route:
    def __init__(self, method, pattern, segments, handler):
        self.method = method
        self.pattern = pattern
        self.handler = handler
        self.regex = compiled(segments)
        self.params = [segment for segment in segments if segment.kind != STATIC]


class Router:
    def __init__(self):
        self._routes = []
        self._named = {}

    def add(self, method, pattern, handler, name=None):
        segments = parse(pattern)
        if name is not None and name in self._named:
            raise ValueError(f"there is a route named {name!r} already")
        route = _Route(method.upper(), pattern, segments, handler)
        for other in self._routes:
            if other.method == route.method and other.regex == route.regex:
                raise ValueError(f"{method} {pattern!r} is there already, as {other.pattern!r}")
        self._routes.append(route)
        if name is not None:
            self._named[name] = segments

    def match(self, method, path):
        method = method.upper()
        path = unquote(path)
        for route in self._routes:
            found = route.regex.fullmatch(path)
            if found is None:
                continue
            if route.method != method and (route.method, method) != ("GET", "HEAD"):
                raise MethodNotAllowed([route.method])
            params = {}
            for segment, text in zip(route.params, found.groups()):
                params[segment.text] = int(text) if segment.kind == INT else text
            return Match(route.handler, params, route.pattern)
        raise NotFound(path)

    def url(self, route, /, **params):
        if route not in self._named:
            raise ValueError(f"there is no route named {route!r}")
        return build(self._named[route], params)
