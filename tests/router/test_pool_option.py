"""How pools are reached, as the command line says it: certificates, server names, credentials."""

import ssl
from pathlib import Path

import pytest
import trustme

from router.cli import read_settings, serve
from router.core.topology import Frontend
from router.pool_option import PoolOption, PoolOptionError, parse_pool
from router.tls import TlsTable

CANARY = "s3cr3t-canary"
HTTPS = "b=https://pool.test:9443"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ca") / "ca.pem"
    trustme.CA().cert_pem.write_to_path(str(path))
    return path


def parse(text: str, **environ: str) -> PoolOption:
    return parse_pool(text, environ)


def test_a_pool_over_http_has_nothing_of_tls() -> None:
    option = parse("b=http://127.0.0.1:9002")
    assert (option.tls, option.secret) == (None, None)
    assert TlsTable({}).of(option.pool.frontends[0]) is None


def test_https_is_verified_unless_that_is_turned_off(bundle: Path) -> None:
    for keys, mode in (
        ("", ssl.CERT_REQUIRED),
        (f";ca={bundle}", ssl.CERT_REQUIRED),
        (";verify=on", ssl.CERT_REQUIRED),
        (";verify=off", ssl.CERT_NONE),
    ):
        tls = parse(HTTPS + keys).tls
        assert tls is not None
        assert (tls.context.verify_mode, tls.context.check_hostname) == (mode, mode is ssl.CERT_REQUIRED)
        assert tls.verified is (mode is ssl.CERT_REQUIRED)


def test_a_bundle_is_all_that_is_trusted(bundle: Path) -> None:
    tls = parse(f"{HTTPS};ca={bundle}").tls
    assert tls is not None
    assert len(tls.context.get_ca_certs()) == 1


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("b=https://pool.test:9443", "pool.test"),
        ("b=https://pool.test.:9443/base", "pool.test"),
        ("b=https://127.0.0.1:9443;sni=inner.pool.test", "inner.pool.test"),
        ("b=https://[::1]:9443", "::1"),
    ],
)
def test_the_name_that_is_sent_and_verified(text: str, name: str) -> None:
    option = parse(text)
    assert option.tls is not None
    tls = TlsTable({"b": option.tls}).of(option.pool.frontends[0])
    assert tls is not None
    assert tls == (option.tls.context, name)


def test_a_pool_nobody_told_of_is_verified() -> None:
    tls = TlsTable({}).of(Frontend("new", "new-0", "https://pool.test"))
    assert tls is not None
    assert tls.context.verify_mode is ssl.CERT_REQUIRED


def test_what_is_not_verified_is_listed() -> None:
    options = [parse(text) for text in ("z=https://z.test;verify=off", HTTPS, "c=https://c.test;verify=off")]
    assert TlsTable({o.pool.name: o.tls for o in options if o.tls is not None}).unverified() == ["c", "z"]


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        ("token", "Bearer token"),
        (" token\n", "Bearer token"),
        ("Bearer token", "Bearer token"),
        ("Basic dXNlcjpwYXNz", "Basic dXNlcjpwYXNz"),
    ],
)
def test_a_variable_holds_a_bearer_token_or_a_whole_value(value: str, sent: str) -> None:
    secret = parse("b=http://127.0.0.1:1;auth-env=KEY", KEY=value).secret
    assert secret is not None
    assert secret.reveal() == sent
    assert str(secret) == f"{secret!r}" == "<Secret>"


BAD = [
    (f"{HTTPS};ca=/no/such/file", "ca="),
    (f"{HTTPS};ca=/", "ca="),
    (f"{HTTPS};ca={__file__}", "ca="),
    (f"{HTTPS};ca=", "ca="),
    (f"{HTTPS};sni=https://pool.test", "sni="),
    (f"{HTTPS};sni=pool.test:443", "sni="),
    (f"{HTTPS};sni=a..b", "sni="),
    (f"{HTTPS};sni={'a' * 64}.test", "sni="),
    (f"{HTTPS};sni=a;sni=b", "sni="),
    (f"{HTTPS};verify=no", "verify="),
    (f"{HTTPS};verify=off;ca={__file__}", "ca="),
    ("b=http://127.0.0.1:9002;ca=/x", "ca="),
    ("b=http://127.0.0.1:9002;sni=pool.test", "sni="),
    ("b=http://127.0.0.1:9002;verify=off", "verify="),
    ("b=https://pool.test,http://127.0.0.1:9002;verify=off", "verify="),
    ("b=http://127.0.0.1:9002;auth-env=NOT_SET_ANYWHERE", "auth-env="),
    ("b=http://127.0.0.1:9002;auth-env=EMPTY", "auth-env="),
    ("b=http://127.0.0.1:9002;auth-env=TWO_LINES", "auth-env="),
    ("b=http://127.0.0.1:9002;auth-env=NOT_ASCII", "auth-env="),
    (f"b=http://127.0.0.1:9002;auth-env={CANARY}", "auth-env="),
    (f"b=http://127.0.0.1:9002;auth-env=x{CANARY.replace('-', '_')}", "auth-env="),
    (f"b=http://127.0.0.1:9002;api-key={CANARY}", "api-key"),
    (f"b=http://127.0.0.1:9002;{CANARY}", "no key of a pool"),
    (f"b=http://127.0.0.1:9002;Bearer {CANARY}=", "no key of a pool"),
    (f"http://me:{CANARY}@127.0.0.1:9002", "is not of the form"),
]


@pytest.mark.parametrize(("text", "key"), BAD)
def test_what_cannot_be_is_one_line_with_key_and_remedy_and_no_secret(
    text: str, key: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EMPTY", "  ")
    monkeypatch.setenv("TWO_LINES", f"{CANARY}\r\nX-Other: {CANARY}")
    monkeypatch.setenv("NOT_ASCII", f"{CANARY}\u00e9")
    monkeypatch.delenv("NOT_SET_ANYWHERE", raising=False)
    assert serve(["--port", "0", "--pool", text]) == 2
    out, said = capsys.readouterr()
    assert (out, said.count("\n")) == ("", 1)
    assert said.startswith("pooldrill serve: --pool: ")
    assert "; remedy: " in said
    assert key in said
    assert CANARY not in said
    assert CANARY.replace("-", "_") not in said


def test_the_library_says_the_same_as_the_command_line() -> None:
    with pytest.raises(PoolOptionError, match="auth-env="):
        parse("b=http://127.0.0.1:9002;auth-env=KEY")


def test_settings_carry_what_was_read_and_show_no_secret(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("B_KEY", CANARY)
    argv = ["--pool", "a=http://127.0.0.1:9001", "--pool", f"{HTTPS};ca={bundle};auth-env=B_KEY;model=m"]
    settings = read_settings(["--port", "0", *argv])
    assert (set(settings.tls), set(settings.secrets)) == ({"b"}, {"b"})
    assert settings.secrets["b"].reveal() == f"Bearer {CANARY}"
    assert CANARY not in repr(settings)
