"""`python -m minispark_stream` is the command `minispark_stream`."""

from minispark_stream.tools.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
