"""What a pool says: known in advance to the byte, so that a cut can be counted in events."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from scenarios.spec import Service
from scenarios.world.answers import DONE, error_body, event, plain_answer, stream_events, words

ids = st.from_regex(r"\Aop-[0-9]{1,2}-[0-9]{1,4}-r[0-9]\Z")
counts = st.integers(1, 40)


def content(piece: bytes) -> Any:
    """Decode one server-sent event of a stream."""
    assert piece.startswith(b"data: ")
    assert piece.endswith(b"\n\n")
    return json.loads(piece.removeprefix(b"data: "))


@given(ids, counts)
def test_a_stream_is_its_tokens_the_finish_reason_and_the_end_mark(request_id: str, tokens: int) -> None:
    *said, finish, end = stream_events(request_id, "drill-model", Service(tokens=tokens))
    choices = [content(piece)["choices"][0] for piece in (*said, finish)]
    assert [choice["delta"].get("content") for choice in choices[:-1]] == words(request_id, tokens)
    assert [choice["finish_reason"] for choice in choices] == [None] * tokens + ["stop"]
    assert choices[-1]["delta"] == {}
    assert end == DONE
    assert all(content(piece)["model"] == "drill-model" for piece in (*said, finish))


@given(ids, counts)
def test_all_token_events_of_a_model_have_one_size(request_id: str, tokens: int) -> None:
    said = stream_events(request_id, "drill-model", Service(tokens=tokens))[:-2]
    assert {len(piece) for piece in said} == {len(event("drill-model", words("another", 1)[0]))}


@given(ids, counts)
def test_a_plain_answer_says_the_same_words(request_id: str, tokens: int) -> None:
    answer = json.loads(plain_answer(request_id, "drill-model", Service(tokens=tokens), prompt_tokens=3))
    assert answer["choices"][0]["message"]["content"] == "".join(words(request_id, tokens))
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"] == {"prompt_tokens": 3, "completion_tokens": tokens, "total_tokens": tokens + 3}


def test_words_differ_from_token_to_token_and_from_request_to_request() -> None:
    said = [word for turn in range(20) for word in words(f"op-0-{turn}-r0", 20)]
    assert len(set(said)) == 400
    assert words("op-0-0-r0", 20)[:5] == words("op-0-0-r0", 5)


def test_an_error_has_the_shape_of_openais_api() -> None:
    assert json.loads(error_body("maybe_running", "It may be running.")) == {
        "error": {"message": "It may be running.", "type": "server_error", "code": "maybe_running"}
    }
