"""The harness's end of a frontend's control port."""

from collections.abc import Mapping
from typing import Any

import aiohttp
import msgspec

from chaos.frontend.service import Mode
from chaos.ports import LOOPBACK
from scenarios.world.condition import Condition

CALL_WAIT_S = 5.0


class ControlError(RuntimeError):
    """A frontend did not do what it was told."""

    exit_code = 3


class Remote:
    """One frontend, told what to do over its control port. Raises ControlError."""

    def __init__(self, name: str, control_port: int, session: aiohttp.ClientSession) -> None:
        self._name = name
        self._url = f"http://{LOOPBACK}:{control_port}"
        self._session = session

    async def set_mode(self, mode: Mode) -> None:
        """Change what it does with the next whole body. Returns once it is changed."""
        state = await self._call("POST", "/mode", {"mode": mode})
        if state["mode"] != mode:
            raise ControlError(f"frontend {self._name}: is in mode {state['mode']!r} after it was told {mode!r}")

    async def set_condition(self, condition: Condition) -> None:
        """Let a fault of the pool come or go. Returns once it is on or off."""
        state = await self._call("POST", "/condition", msgspec.structs.asdict(condition))
        if msgspec.convert(state["condition"], Condition) != condition:
            told = f"after it was told {condition}"
            raise ControlError(f"frontend {self._name}: is in condition {state['condition']!r} {told}")

    async def in_flight(self) -> int:
        """Completions it is working on."""
        return int((await self._call("GET", "/state"))["in_flight"])

    async def _call(self, method: str, path: str, content: Mapping[str, Any] | None = None) -> dict[str, Any]:
        timeout = aiohttp.ClientTimeout(total=CALL_WAIT_S)
        try:
            async with self._session.request(method, self._url + path, json=content, timeout=timeout) as response:
                response.raise_for_status()
                state: dict[str, Any] = await response.json()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ControlError(f"frontend {self._name}: {method} {path}: {error or type(error).__name__}") from error
        return state
