"""What a fake pool says: the same text for the same request in the real run and in the model.

Token text varies from event to event, since some gateways abort on repeats. Every event of one answer has the same
length, so the bytes that went through before a cut can be counted in events.
"""

import hashlib
import json

from scenarios.spec import Service

DONE = b"data: [DONE]\n\n"


def words(request_id: str, count: int) -> list[str]:
    """Return the answer's tokens: eight hexadecimal digits and a space each, drawn from the request id."""
    return [hashlib.sha256(f"{request_id}/{index}".encode()).hexdigest()[:8] + " " for index in range(count)]


def event(model: str, word: str) -> bytes:
    """Return one server-sent event of a streamed chat completion."""
    return b"data: " + json.dumps(_chunk(model, {"content": word}, None)).encode() + b"\n\n"


def stream_events(request_id: str, model: str, service: Service) -> list[bytes]:
    """Return a whole streamed answer: one event a token, the finish reason, and the end mark."""
    tokens = [event(model, word) for word in words(request_id, service.tokens)]
    last = b"data: " + json.dumps(_chunk(model, {}, "stop")).encode() + b"\n\n"
    return [*tokens, last, DONE]


def plain_answer(request_id: str, model: str, service: Service, prompt_tokens: int = 1) -> bytes:
    """Return a whole plain answer."""
    usage = {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": service.tokens,
        "total_tokens": prompt_tokens + service.tokens,
    }
    message = {"role": "assistant", "content": "".join(words(request_id, service.tokens))}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    body = {"id": "chatcmpl-drill", "object": "chat.completion", "created": 0, "model": model}
    return json.dumps({**body, "choices": [choice], "usage": usage}).encode()


def error_body(code: str, message: str, kind: str = "server_error") -> bytes:
    """Return an error in the shape of OpenAI's API."""
    return json.dumps({"error": {"message": message, "type": kind, "code": code}}).encode()


def _chunk(model: str, delta: dict[str, str], finish_reason: str | None) -> dict[str, object]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    head = {"id": "chatcmpl-drill", "object": "chat.completion.chunk", "created": 0, "model": model}
    return {**head, "choices": [choice]}
