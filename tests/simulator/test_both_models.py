"""Where both models can run a drill, users see the same of it, and pools get the same."""

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scenarios.layers import Layer
from scenarios.presets import preset
from scenarios.spec import Expect, Fault, Load, Pool, Scenario, Service
from simulator.run import run

SDK = preset("openai-3.x").layers[0]
CHAIN = (
    msgspec.structs.replace(SDK, preset="openai-3.x", attempt_timeout_s=30.0),
    Layer(name="router", kind="pooldrill"),
)


def told(scenario: Scenario, out: Path) -> tuple[int, Counter[tuple[str, int | None, str | None]], int]:
    """Return how many operations were answered, what was seen of each request, and the sends."""
    record = run(scenario, out)
    seen: Counter[tuple[str, int | None, str | None]] = Counter()
    seen.update((row.end, row.status, row.code and str(row.code)) for row in record.requests)
    return sum(row.ok for row in record.operations), seen, len(record.sends)


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "plain"])
@pytest.mark.parametrize("kind", ["refused", "black_hole", "read_drop", "cut"])
def test_a_stock_sdk_before_the_router_sees_the_same_in_both(tmp_path: Path, kind: Any, *, stream: bool) -> None:
    if kind == "cut" and not stream:
        return  # there is nothing to count in an answer that comes as a whole
    service = Service(first_token_s=0.1, token_gap_s=0.1, tokens=10)
    plain = Scenario(
        name="both",
        title="a stock SDK, the router, two pools",
        seed=3,
        duration_s=14.0,
        pools=(Pool(id="east", service=service), Pool(id="west", service=service)),
        load=(Load(rate_rps=7.3, start_s=0.55, end_s=12.0, client="openai", stream=stream),),
        faults=(
            Fault(kind=kind, pool="east", inject_s=3.013, clear_s=6.017, after_events=3 if kind == "cut" else None),
        ),
        expect=Expect(),
    )
    layered = msgspec.structs.replace(plain, layers=CHAIN, model_only="a test")
    assert told(plain, tmp_path) == told(layered, tmp_path)
