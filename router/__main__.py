"""`python -m router`: the router alone, as a process of its own."""

import sys

from router.cli import serve

if __name__ == "__main__":
    sys.exit(serve(sys.argv[1:]))
