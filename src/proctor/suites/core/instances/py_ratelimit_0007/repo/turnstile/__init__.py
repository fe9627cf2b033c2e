from .gate import Turnstile

__all__ = ["Turnstile"]
