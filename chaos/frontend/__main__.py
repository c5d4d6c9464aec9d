"""`python -m chaos.frontend`: one fake frontend."""

import sys

from chaos.frontend.process import main

sys.exit(main(sys.argv[1:]))
