"""How a router process is told to end: by a user's signals, or by the supervisor of several workers.

Laws
1. Whoever is told to end takes nothing new and lets running streams finish; whoever is told to hurry does not wait.
2. Alone, the first SIGTERM or SIGINT ends and the second hurries. A worker is told by its supervisor, so it counts
   nothing: signals to a whole process group reach it beside those that the supervisor passes on.
3. A worker whose supervisor is gone, however that came, ends as if it had been told to.
"""

import asyncio
import os
import signal
from collections.abc import Callable

END = signal.SIGTERM
HURRY = signal.SIGUSR2
"""What a supervisor sends its workers; repeating either changes nothing."""


class Ending:
    """What a running router waits for. Made inside a running event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.stop = asyncio.Event()
        self.hurry = asyncio.Event()

    def by_user(self) -> None:
        """End at the first signal, hurry at the second."""

        def signalled() -> None:
            (self.hurry if self.stop.is_set() else self.stop).set()

        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, signalled)

    def by_supervisor(self, lifeline: int, on_gone: Callable[[], None]) -> None:
        """End when told to, or when `lifeline`, whose other end only the supervisor has, is closed."""

        def gone() -> None:
            self._loop.remove_reader(lifeline)
            on_gone()
            self.stop.set()

        def hurry() -> None:
            self.stop.set()
            self.hurry.set()

        os.set_blocking(lifeline, False)
        self._loop.add_reader(lifeline, gone)
        self._loop.add_signal_handler(END, self.stop.set)
        self._loop.add_signal_handler(HURRY, hurry)
