"""The process that ends a run's children when the harness cannot: one pipe, one process group, one signal.

Started by `chaos.processes` as the leader of a process group of its own, with the read end of a pipe as its standard
input; the harness holds the only write end. Every child joins this group before it runs its program. When the harness
ends, in whatever way, the kernel closes the write end; the guardian reads end of file and kills its whole group, itself
included. Standard library only, and no import of the project, so that it starts in milliseconds.
"""

import os
import select
import signal
import sys

POLL_S = 0.5
"""How often the guardian looks whether its parent still lives."""
GRACE_S = 1.0
"""How long an orphaned guardian waits for the end of file. A child between fork and exec still holds the pipe, and must
be in the group before the group is killed."""


def main() -> None:
    """Wait for the end of the harness, then kill the group. Never returns."""
    if os.getpgrp() != os.getpid():
        sys.exit("guardian: not the leader of its process group, so its group is not its own to kill")
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(ignored, signal.SIG_IGN)
    parent = int(sys.argv[1])
    # A process that forked from the harness without exec would keep the pipe open: the parent's death counts as well.
    while os.getppid() == parent and not _ended(POLL_S):
        pass
    _ended(GRACE_S)
    os.killpg(os.getpgrp(), signal.SIGKILL)


def _ended(wait_s: float) -> bool:
    """Whether the write end of the pipe is closed, waiting at most `wait_s` seconds. Nothing is ever written to it."""
    readable, _, _ = select.select([sys.stdin.fileno()], [], [], wait_s)
    return bool(readable)


if __name__ == "__main__":
    main()
