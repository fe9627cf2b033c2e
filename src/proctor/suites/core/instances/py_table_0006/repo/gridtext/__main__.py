import argparse
import csv
import sys

from .layout import table


def main(argv=None, stdin=None, stdout=None):
    parser = argparse.ArgumentParser(prog="gridtext", description="CSV in, a table for people out.")
    parser.add_argument("--align", default="", metavar="LETTERS")
    parser.add_argument("--max", type=int, metavar="N")
    parser.add_argument("--no-header", action="store_true")
    options = parser.parse_args(argv)
    rows = list(csv.reader(stdin or sys.stdin))
    try:
        text = table(rows, header=not options.no_header, align=options.align, limit=options.max)
    except ValueError as error:
        parser.error(str(error))
    (stdout or sys.stdout).write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
