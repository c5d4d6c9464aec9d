from reports.markup import Markup, element, joined, prose, table


def test_text_is_escaped_and_markup_is_not() -> None:
    assert element("p", "a < b & c", element("b", "<i>")) == "<p>a &lt; b &amp; c<b>&lt;i&gt;</b></p>"


def test_attributes_are_escaped_and_named_as_in_html() -> None:
    made = element("td", "x", class_='a" onload="x', data_label="<p>", aria_label="'")
    assert made == '<td class="a&quot; onload=&quot;x" data-label="&lt;p&gt;" aria-label="&#x27;">x</td>'


def test_void_elements_have_no_end() -> None:
    assert element("img", src="data:,", alt="") == '<img src="data:," alt="">'


def test_joining_escapes_the_pieces_and_what_stands_between() -> None:
    assert joined(["<", Markup("<br>")], " & ") == "&lt; &amp; <br>"


def test_prose_marks_code_and_escapes_it() -> None:
    assert prose("what `a<b` says") == "what <code>a&lt;b</code> says"
    assert prose("no code") == "no code"


def test_each_cell_of_a_table_repeats_its_heading_for_narrow_screens() -> None:
    made = table("sends & more", ["pool", "real"], [["a", "3"]], class_="numbers")
    assert "<caption>sends &amp; more</caption>" in made
    assert '<th scope="row">a</th><td data-label="real">3</td>' in made
