"""Secrets of the pools: each goes to its own pool and nowhere else.

Laws
1. A secret comes from the environment, never from the command line, and is shown by nothing: no log, no error, no
   metric, no repr.
2. A pool with a secret gets it in place of whatever Authorization the client sent; a pool without one gets the
   client's.
3. Headers are made for each send from what the client sent, so what was added for one pool is never there for the next.
"""

import re
from collections.abc import Mapping

from multidict import CIMultiDict

AUTHORIZATION = "Authorization"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SENDABLE = re.compile(r"[\x21-\x7e]+( [\x21-\x7e]+)*")


class CredentialError(ValueError):
    """A secret cannot be used; the text says why and the remedy, and nothing of the secret."""


class Secret:
    """The value of an Authorization header. Nothing but `reveal` shows it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the value, to be sent to its pool."""
        return self._value

    def __repr__(self) -> str:
        return "<Secret>"


def read_secret(variable: str, environ: Mapping[str, str]) -> Secret:
    """Return what an environment variable holds: a scheme and its credentials, or a bearer token alone.

    Raises CredentialError, which does not repeat the name either: somebody may have put the secret in its place.
    """
    if not _VARIABLE.fullmatch(variable):
        raise CredentialError("is not the name of an environment variable; remedy: letters, digits and _, no secret")
    value = environ.get(variable, "").strip()
    if not value:
        raise CredentialError("names an environment variable that is empty or not set; remedy: export it")
    if not _SENDABLE.fullmatch(value):
        raise CredentialError("names a variable with characters that no header can carry; remedy: printable ASCII")
    return Secret(value if " " in value else f"Bearer {value}")


class Credentials:
    """The secrets of all pools that have one."""

    def __init__(self, by_pool: Mapping[str, Secret]) -> None:
        self._by_pool = by_pool

    def for_pool(self, headers: "CIMultiDict[str]", pool: str) -> "CIMultiDict[str]":
        """Return the headers of one send: those given, or a copy with the pool's own Authorization."""
        secret = self._by_pool.get(pool)
        if secret is None:
            return headers
        own = headers.copy()
        own[AUTHORIZATION] = secret.reveal()
        return own

    def __repr__(self) -> str:
        return f"<Credentials of {', '.join(sorted(self._by_pool)) or 'no pool'}>"
