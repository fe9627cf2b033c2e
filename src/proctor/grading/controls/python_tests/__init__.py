"""Alterations of Python tests, from their syntax tree."""

from proctor.grading.controls.python_tests.finder import find_alterations

__all__ = ["find_alterations"]
