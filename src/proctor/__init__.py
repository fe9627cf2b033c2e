"""Proctor runs standard coding benchmarks against coding agents and says honestly which configuration is better."""

__version__ = "0.1.0"
