"""Commit0: write a library from its stubs, its tests and its specification; graded by the share of tests that pass.

The official score and ours stand side by side, beside what the stubs and the oracle have: stubs pass some tests
already, and the oracle does not pass all of them.
"""
