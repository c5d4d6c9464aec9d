"""`--pool id=url[,url...][;model=m[,m2]]`: one pool, as the command line names it."""

import re
from urllib.parse import urlsplit

from router.core.topology import Pool

FORM = "id=url[,url...][;model=m[,m2]]"
FRONTENDS_MAX = 256
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class PoolOptionError(ValueError):
    """A pool is written wrongly; the text names the pool and the remedy."""


def parse_pool(text: str) -> Pool:
    """Read one pool. Raises PoolOptionError in one line."""
    where, *options = text.split(";")
    name, equals, urls = where.partition("=")
    if not equals or not _NAME.fullmatch(name):
        raise PoolOptionError(f"{text!r} is not of the form {FORM}; remedy: begin with a name of letters and digits")
    addresses = [_address(name, url.strip()) for url in urls.split(",")]
    if len(addresses) > FRONTENDS_MAX:
        raise PoolOptionError(f"pool {name} has {len(addresses)} frontends; remedy: at most {FRONTENDS_MAX}")
    return Pool.of_urls(name, addresses, _models(name, options))


def parse_pools(texts: list[str]) -> tuple[Pool, ...]:
    """Read all pools of a router. Raises PoolOptionError in one line."""
    pools = tuple(parse_pool(text) for text in texts)
    pool_of_url: dict[str, str] = {}
    for pool in pools:
        if sum(other.name == pool.name for other in pools) > 1:
            raise PoolOptionError(f"pool {pool.name} is given twice; remedy: list all its URLs in one --pool")
        for frontend in pool.frontends:
            # A failover goes to another pool because that is another machine.
            if frontend.url in pool_of_url:
                raise PoolOptionError(
                    f"{frontend.url} is given twice, in pools {pool_of_url[frontend.url]} and {pool.name};"
                    " remedy: give every server once, with ;model=m,m2 if it has several models"
                )
            pool_of_url[frontend.url] = pool.name
    return pools


def _models(name: str, options: list[str]) -> tuple[str, ...]:
    models: list[str] = []
    for option in options:
        key, _, value = option.partition("=")
        listed = [model.strip() for model in value.split(",")]
        if key.strip() != "model" or not all(listed):
            raise PoolOptionError(f"pool {name}: {option!r} is not model=m[,m2]; remedy: the form is {FORM}")
        models += listed
    return tuple(dict.fromkeys(models))


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
