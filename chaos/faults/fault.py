"""What the faults share: their shape, what they are done to, and the proof that they are on.

A fault that was asked for and is not on makes every check after it worthless. So `inject` and `clear` each end with a
probe of the target, as a router would reach it, and say what the probe saw.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from chaos.toxiproxy import Proxy
from scenarios.world.condition import Condition

FrontendMode = Literal["ok", "read_drop"]


@dataclass(frozen=True, slots=True)
class ProbeIds:
    """Ids of one probe. The caller issues them, since a pool that sees ids which nobody issued fails the run."""

    operation_id: str
    request_id: str


class FrontendControl(Protocol):
    """The harness's own way to a fake frontend, beside the proxy."""

    async def set_mode(self, mode: FrontendMode) -> None:
        """Change what the frontend does with the next whole body. Returns once it is changed."""
        ...

    async def set_condition(self, condition: Condition) -> None:
        """Change what the frontend can do. Returns once it says that it is changed."""
        ...


@dataclass(frozen=True, slots=True)
class Target:
    """One frontend of a pool behind its proxy. `name` is for messages, POOL/FRONTEND."""

    name: str
    proxy: Proxy
    control: FrontendControl
    issue_probe: Callable[[], ProbeIds]


@dataclass(frozen=True, slots=True)
class Proof:
    """What a probe saw after a change.

    `begin_s` and `effect_s` are times of the running loop: the change began at the first and was in effect at the
    second. The probe came after.
    """

    proved: bool
    detail: str
    begin_s: float
    effect_s: float


class Fault(Protocol):
    """One fault, done to one target; an instance may hold sockets between `inject` and `clear`.

    Both return a Proof, also when the probe saw something else (`proved` False), and raise ToxiproxyError, the target's
    ControlError or OSError when the change itself failed. `clear` is safe after an `inject` that raised.
    """

    async def inject(self, target: Target) -> Proof:
        """Make the fault and prove that it is on."""
        ...

    async def clear(self, target: Target) -> Proof:
        """End the fault and prove that the target answers again."""
        ...
