"""Reads the numbers behind a measurement's name on the command line."""

import argparse


def number_arguments(about: str | None, **usual: int) -> list[int]:
    """One number for each name, or the usual one."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in usual.items():
        parser.add_argument(name, type=int, nargs="?", default=value)
    return list(vars(parser.parse_args()).values())
