import argparse
import sys

from .merge import merge


def main(argv=None, out=None, err=None):
    out, err = out or sys.stdout.buffer, err or sys.stderr
    parser = argparse.ArgumentParser(prog="braid")
    parser.add_argument("files", nargs=3, metavar="FILE", help="base, ours, theirs")
    parser.add_argument("--base", action="store_true", help="show the lines of the base in conflicts")
    options = parser.parse_args(argv)
    texts = []
    for path in options.files:
        try:
            with open(path, "rb") as file:
                texts.append(file.read().decode("utf-8", "surrogateescape"))
        except OSError as error:
            err.write(f"braid: {path}: {error.strerror}\n")
            return 2
    result = merge(*texts, show_base=options.base)
    out.write(result.text.encode("utf-8", "surrogateescape"))
    return 1 if result.conflicts else 0


if __name__ == "__main__":
    sys.exit(main())
