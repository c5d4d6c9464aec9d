import html.parser
import re
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from reports.page import Report, ReportError, write_report
from scenarios.record import Fault, Record, Request, Row, Send
from scenarios.spec import Expect
from tests.reports.records import (
    as_real,
    model,
    modelled,
    nothing_happened,
    received_twice,
    repeated,
)

EVIL = "</td><script>alert(1)</script><img src=x onerror=alert(1)>\" onmouseover='x' &amp; ${body}"


class Reader(html.parser.HTMLParser):
    """Collects elements and their attributes, and insists that what is opened is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("img", "meta", "source"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self._open):
            self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Return the report of a good drill."""
    return both("refused", tmp_path_factory.mktemp("refused"))


def both(name: str, out: Path) -> Report:
    return write_report(real=as_real(modelled(name)), simulated=modelled(name), out=out)


def read(report: Report) -> Reader:
    return Reader(report.page.read_text(encoding="utf-8"))


def test_page_pictures_and_csv_files_are_written_beside_each_other(refused: Report) -> None:
    names = {"refused.timeline.png", "refused.sends.png", "refused.requests.csv", "refused.sends.csv"}
    assert {path.name for path in refused.beside} == names
    assert {path.name for path in refused.page.parent.iterdir()} == names | {"refused.html"}
    assert all(path.stat().st_size for path in refused.beside)


def test_the_verdict_comes_first_and_in_words(refused: Report) -> None:
    text = re.sub(r"\s+", " ", read(refused).text)
    assert refused.overall == "pass"
    assert refused.sentence.startswith("Pool east refused every connection for 1.2 s. 14 of 14 requests were answered")
    assert text.index("PASSPool east refused") < text.index("What clients saw") < text.index("Timeline")
    assert "What broke" not in text


def test_the_page_fetches_nothing(refused: Report) -> None:
    page = read(refused)
    sources = [
        value for tag in ("img", "source") for one in page.all(tag) for value in (one.get("src"), one.get("srcset"))
    ]
    assert all(value is None or value.startswith("data:image/png;base64,") for value in sources)
    assert not any(page.all(tag) for tag in ("script", "link", "iframe", "a", "form", "object", "base"))
    assert "http:" not in page.text
    assert "url(" not in refused.page.read_text()
    assert any("default-src 'none'" in (meta.get("content") or "") for meta in page.all("meta"))


def test_every_picture_has_words_for_those_who_do_not_see_it(refused: Report) -> None:
    pictures = read(refused).all("img")
    assert len(pictures) == 2
    assert "pool east refused every connection for 1.2 s; 14 of 14 requests" in (pictures[0]["alt"] or "")
    assert all(picture["alt"] for picture in pictures)


def test_real_and_model_stand_side_by_side(refused: Report) -> None:
    page = refused.page.read_text()
    row = '<th scope="row">{}</th><td data-label="real">{}</td><td data-label="model">{}</td>'
    assert row.format("send_amplification (sends / operations)", "1.214", "1.214") in page
    assert row.format("bodies per request, highest (law: at most 1)", "1", "1") in page
    assert re.search(
        r"whole answer: p50</th><td[^>]*>\d+\.\d ms</td><td[^>]*>\d+\.\d ms</td><td[^>]*>\N{MINUS SIGN}", page
    )
    assert "shown, not judged yet" in page
    assert (
        '<th scope="row">east</th><td data-label="delivery">unsent</td><td data-label="status or cause">refused</td>'
        in page
    )


def test_every_check_is_shown_for_every_arm(refused: Report) -> None:
    text = read(refused).text
    for check in ("never_twice", "faults_fired", "expected_answers", "same_requests"):
        assert check in text
    assert text.count("\N{CHECK MARK} pass") == int(re.findall(r"All (\d+) checks passed", refused.sentence)[0])


def test_faults_runs_and_words_are_explained(refused: Report) -> None:
    text = read(refused).text
    for needed in ("1.000 to 2.200", "2025-03-04T05:06:07+01:00", "toxiproxy version", "2.12.0", "seed", "reference"):
        assert needed in text
    assert ".venv/bin/pooldrill compare refused" in text
    for word in ("operation", "request", "send", "delivery"):
        assert f"<dt>{word}</dt>" in refused.page.read_text()


def test_the_same_records_give_the_same_bytes(refused: Report, tmp_path: Path) -> None:
    again = both("refused", tmp_path)
    for path in (refused.page, *refused.beside):
        assert (tmp_path / path.name).read_bytes() == path.read_bytes(), path.name
    assert again.sentence == refused.sentence


def test_a_failure_names_what_broke_and_what_to_do(tmp_path: Path) -> None:
    report = write_report(
        real=received_twice(as_real(modelled("refused"))), simulated=modelled("refused"), out=tmp_path
    )
    text = read(report).text
    assert report.overall == "fail"
    assert "2 were received more than once" in report.sentence
    assert text.index("What broke") < text.index("scenarios/catalog/refused.toml::real::never_twice")
    assert "Must hold: No request's whole body was received more than once" in text
    assert "op-0-0-r0" in text
    assert ".venv/bin/pytest 'scenarios/catalog/refused.toml::real::never_twice'" in text
    assert "\N{BALLOT X} FAIL" in text


def test_an_invalid_run_is_not_called_a_failure_of_the_router(tmp_path: Path) -> None:
    invalid = as_real(modelled("refused"), invalid="loop lag 0.31 s, allowed 0.10 s")
    report = write_report(real=invalid, simulated=modelled("refused"), out=tmp_path)
    text = read(report).text
    assert report.overall == "invalid"
    assert "INVALID RUN" in text
    assert "Not fit to be judged: loop lag 0.31 s, allowed 0.10 s" in text
    assert "pytest" not in text


@pytest.mark.parametrize("mode", ["real", "simulated"])
def test_one_run_alone_has_a_page_of_its_own(mode: str, tmp_path: Path) -> None:
    record = modelled("refused")
    if mode == "real":
        report = write_report(real=as_real(record), simulated=None, out=tmp_path)
    else:
        report = write_report(real=None, simulated=record, out=tmp_path)
    page = read(report)
    assert report.page.name == f"refused.{mode}.html"
    assert report.overall == "pass"
    assert "Real run against model" not in page.text
    assert "model \N{MINUS SIGN} real" not in page.text


def test_a_run_in_which_nothing_happened_has_a_page(tmp_path: Path) -> None:
    report = write_report(real=nothing_happened(as_real(modelled("refused"))), simulated=None, out=tmp_path)
    assert report.overall == "fail"
    assert read(report).text


@pytest.mark.parametrize("name", ["black_hole_under_load", "mid_stream_drop"])
def test_scenarios_of_every_kind_have_a_page(name: str, tmp_path: Path) -> None:
    report = both(name, tmp_path)
    assert report.overall == "pass"
    assert read(report).text


def evil(record: Record) -> Record:
    """Return a record with something nasty in every free text."""
    scenario = replace(record.scenario, title=EVIL[:120], story=EVIL, expect=Expect(answers={"200": 14, EVIL: 1}))
    meta = replace(
        record.meta, scenario=scenario, mode="real", router=EVIL, started=EVIL, commit=EVIL, versions={EVIL: EVIL}
    )
    return Record(meta, [_evil(row) for row in record.rows])


def _evil(row: Row) -> Row:
    if isinstance(row, Request):
        return replace(row, request_id=row.request_id + EVIL, status=503, code=EVIL, pool=EVIL)
    if isinstance(row, Send):
        return replace(row, pool=EVIL, delivery=EVIL, cause=EVIL, status=None)
    if isinstance(row, Fault):
        return replace(row, name=EVIL, target=EVIL, proof=EVIL, cleared_proof=EVIL)
    return row


def test_nothing_in_a_record_becomes_markup(tmp_path: Path) -> None:
    record = evil(modelled("refused"))
    report = write_report(real=record, simulated=None, out=tmp_path)
    page = read(report)
    assert not page.all("script")
    assert len(page.all("img")) == 2
    assert not [attributes for _, attributes in page.elements if {"onerror", "onmouseover"} & attributes.keys()]
    assert page.text.count(EVIL) > 5


def test_thousands_of_requests_make_a_page_no_larger_than_a_few(refused: Report, tmp_path: Path) -> None:
    many = repeated(modelled("refused_under_load"), 60)
    page = write_report(real=None, simulated=many, out=tmp_path).page
    assert len(many.requests) == 5400
    assert page.stat().st_size < 2 * refused.page.stat().st_size


def test_records_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    model_, real = modelled("refused"), as_real(modelled("refused"))
    other_seed = model(replace(model_.scenario, seed=99))
    for given, problem in [
        ((None, None), "no record"),
        ((as_real(modelled("black_hole")), model_), "different scenarios, black_hole and refused"),
        ((real, other_seed), "different versions or seeds of refused"),
        ((model_, None), "the real record is of a simulated run"),
    ]:
        with pytest.raises(ReportError, match=problem) as caught:
            write_report(real=given[0], simulated=given[1], out=tmp_path)
        assert caught.value.exit_code == 2
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ReportError, match=r"file.*remedy") as caught:
        write_report(real=None, simulated=modelled("refused"), out=tmp_path / "file" / "out")
    assert caught.value.exit_code == 3


def test_matplotlib_is_not_loaded_before_a_report_is_written() -> None:
    code = "import sys, reports.cli; sys.exit('matplotlib' in sys.modules or 'pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=30).returncode == 0
