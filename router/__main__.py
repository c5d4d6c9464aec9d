"""`python -m router`: the router alone, as a process of its own."""

import sys

from router.cli import MODULE, main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], MODULE))
