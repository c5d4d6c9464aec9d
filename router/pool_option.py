"""`--pool id=url[,url...][;key=value]...`: one pool, as the command line names it, and how it is reached.

Errors repeat keys, never values of keys: somebody may have put a secret there.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from router.core.topology import Pool
from router.credentials import CredentialError, Secret, read_secret
from router.tls import PoolTls, TlsError, checked_name, context_for

FORM = "id=url[,url...][;key=value]..."
HELP = (
    "a pool; once for each. Keys: model=m[,m2] what it serves (default: whatever it is asked for). ca=FILE the"
    " certificates that its https servers must be signed by (default: the machine's). sni=NAME the server name that is"
    " sent and verified (default: the URL's host). verify=off believes any certificate. auth-env=NAME the environment"
    " variable with this pool's key, a bearer token or a whole value such as 'Basic ...'; it replaces the client's"
    " Authorization for this pool alone. Without it the client's own is passed on"
)
FRONTENDS_MAX = 256
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class PoolOptionError(ValueError):
    """A pool is written wrongly; the text names the pool and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOption:
    """One pool, and how it is reached beyond its addresses."""

    pool: Pool
    tls: PoolTls | None = None
    """None: all its URLs are http."""
    secret: Secret | None = None
    """None: the client's own Authorization is passed on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Terms:
    """What the keys of one pool say."""

    models: tuple[str, ...] = ()
    ca: str = ""
    sni: str = ""
    verify: str = ""
    auth_env: str = ""


def parse_pool(text: str, environ: Mapping[str, str]) -> PoolOption:
    """Read one pool, with the files and the variable it names. Raises PoolOptionError in one line."""
    where, *options = text.split(";")
    name, equals, urls = where.partition("=")
    if not equals or not _NAME.fullmatch(name):
        shown = "a pool" if "@" in where else repr(where)  # a user and a password may be in it
        raise PoolOptionError(f"{shown} is not of the form {FORM}; remedy: begin with a name of letters and digits")
    addresses = [_address(name, url.strip()) for url in urls.split(",")]
    if len(addresses) > FRONTENDS_MAX:
        raise PoolOptionError(f"pool {name} has {len(addresses)} frontends; remedy: at most {FRONTENDS_MAX}")
    terms = _terms(name, options)
    return PoolOption(
        pool=Pool.of_urls(name, addresses, terms.models),
        tls=_tls(name, addresses, terms),
        secret=_secret(name, terms, environ),
    )


def parse_pools(texts: list[str], environ: Mapping[str, str]) -> tuple[PoolOption, ...]:
    """Read all pools of a router. Raises PoolOptionError in one line."""
    options = tuple(parse_pool(text, environ) for text in texts)
    pools = [option.pool for option in options]
    pool_of: dict[tuple[object, ...], str] = {}
    for pool in pools:
        if sum(other.name == pool.name for other in pools) > 1:
            raise PoolOptionError(f"pool {pool.name} is given twice; remedy: list all its URLs in one --pool")
        for frontend in pool.frontends:
            # A failover goes to another pool because that is another machine.
            server = _server(frontend.url)
            if server in pool_of:
                raise PoolOptionError(
                    f"{frontend.url} is given twice, in pools {pool_of[server]} and {pool.name};"
                    " remedy: give every server once, with ;model=m,m2 if it has several models"
                )
            pool_of[server] = pool.name
    return options


def _server(url: str) -> tuple[object, ...]:
    """Return what two ways to write one URL have in common."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80), parts.path


def _terms(name: str, options: list[str]) -> _Terms:
    terms = _Terms()
    for option in options:
        key, equals, value = (part.strip() for part in option.partition("="))
        if key not in _TAKE:
            shown = repr(key) if equals and re.fullmatch(r"[\w-]{1,20}", key) else "something"
            raise PoolOptionError(f"pool {name}: {shown} is no key of a pool; remedy: {', '.join(_TAKE)}, as key=value")
        if not value:
            raise PoolOptionError(f"pool {name}: {key}= has no value; remedy: {key}=VALUE, or leave it out")
        field = key.replace("-", "_")
        if getattr(terms, field, ""):
            raise PoolOptionError(f"pool {name}: {key}= is given twice; remedy: give it once")
        terms = _TAKE[key](name, terms, value)
    return terms


def _take_models(name: str, terms: _Terms, value: str) -> _Terms:
    listed = [model.strip() for model in value.split(",")]
    if not all(listed):
        raise PoolOptionError(f"pool {name}: model= has an empty name; remedy: model=m[,m2]")
    return replace(terms, models=tuple(dict.fromkeys((*terms.models, *listed))))


def _take_sni(name: str, terms: _Terms, value: str) -> _Terms:
    try:
        return replace(terms, sni=checked_name(value))
    except TlsError as error:
        raise PoolOptionError(f"pool {name}: sni= is {error}") from None


def _take_verify(name: str, terms: _Terms, value: str) -> _Terms:
    if value not in {"on", "off"}:
        raise PoolOptionError(f"pool {name}: verify= is neither on nor off; remedy: leave it out to verify")
    return replace(terms, verify=value)


_TAKE: dict[str, Callable[[str, _Terms, str], _Terms]] = {
    "model": _take_models,
    "ca": lambda _, terms, value: replace(terms, ca=value),
    "sni": _take_sni,
    "verify": _take_verify,
    "auth-env": lambda _, terms, value: replace(terms, auth_env=value),
}


def _tls(name: str, addresses: list[str], terms: _Terms) -> PoolTls | None:
    given = [key for key in ("ca", "sni", "verify") if getattr(terms, key)]
    secured = [address.startswith("https:") for address in addresses]
    if given and not all(secured):
        raise PoolOptionError(
            f"pool {name}: {given[0]}= is for https, but it has a URL with http; remedy: https, or leave it out"
        )
    if not any(secured):
        return None
    if terms.ca and terms.verify == "off":
        raise PoolOptionError(f"pool {name}: ca= and verify=off contradict each other; remedy: leave one out")
    try:
        context = context_for(Path(terms.ca) if terms.ca else None, verify=terms.verify != "off")
    except TlsError as error:
        raise PoolOptionError(f"pool {name}: ca={error}") from None
    return PoolTls(context, terms.sni)


def _secret(name: str, terms: _Terms, environ: Mapping[str, str]) -> Secret | None:
    try:
        return read_secret(terms.auth_env, environ) if terms.auth_env else None
    except CredentialError as error:
        raise PoolOptionError(f"pool {name}: auth-env= {error}") from None


def _address(name: str, url: str) -> str:
    """Return the URL without a slash at its end, checked."""
    if "@" in url:  # not repeated in the error: it may be a password
        raise PoolOptionError(f"pool {name}: a URL with @ in it; remedy: http://HOST:PORT without user and password")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise PoolOptionError(f"pool {name}: {url!r}: {error}; remedy: http://HOST:PORT") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0 or re.search(r"\s", url):
        raise PoolOptionError(f"pool {name}: {url!r} is not http://HOST:PORT; remedy: the form is {FORM}")
    if parts.query or parts.fragment:
        raise PoolOptionError(f"pool {name}: {url!r} has more than an address; remedy: http://HOST:PORT and no more")
    path = parts.path.rstrip("/")
    if path.endswith("/v1"):
        raise PoolOptionError(f"pool {name}: {url!r} ends in /v1, which the router adds; remedy: leave /v1 out")
    return f"{parts.scheme}://{parts.netloc}{path}"
