import functools

from .metrics import counter


def timed(name):
    """A decorator that counts calls of a function, and its failures by the type of the exception."""
    counter(f"{name}_calls")
    counter(f"{name}_failures")

    def decorate(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            counter(f"{name}_calls").add()
            try:
                return function(*args, **kwargs)
            except Exception as error:
                counter(f"{name}_failures").add(type=type(error).__name__)
                raise

        return wrapper

    return decorate
