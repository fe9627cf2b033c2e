"""Instances without Docker: a checkout of the repository beside a virtual environment with the official pins.

`pins` reads the official conda environment, `scripts` the official set-up and eval scripts, `interpreters` finds a
Python, `setting` builds environment and tree once and keeps them, and `LocalRecipe` makes rooms of them. An instance
that this machine cannot set up is said so, with the reason, before anything is spent on it.
"""

from proctor.benchmarks.swe.local.local_setup import LocalInstanceSetup

__all__ = ["LocalInstanceSetup"]
