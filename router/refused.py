"""What is raised for a request that gets its answer before any pool is chosen."""

from router.core.refusal import Code


class Refused(Exception):
    """The router answers itself; `message` is for the client, and for the log if it is the same for all clients.

    `reason` is what the log gets instead where the message quotes the client.
    """

    def __init__(self, code: Code, message: str, *, reason: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason = message if reason is None else reason
