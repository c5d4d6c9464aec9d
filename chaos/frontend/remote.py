"""The harness's end of a frontend's control port."""

import aiohttp

from chaos.frontend.service import Mode
from chaos.ports import LOOPBACK

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

    async def in_flight(self) -> int:
        """Completions it is working on."""
        return int((await self._call("GET", "/state"))["in_flight"])

    async def _call(self, method: str, path: str, content: dict[str, str] | None = None) -> dict[str, str | int]:
        timeout = aiohttp.ClientTimeout(total=CALL_WAIT_S)
        try:
            async with self._session.request(method, self._url + path, json=content, timeout=timeout) as response:
                response.raise_for_status()
                state: dict[str, str | int] = await response.json()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ControlError(f"frontend {self._name}: {method} {path}: {error or type(error).__name__}") from error
        return state
