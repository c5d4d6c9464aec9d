"""The frontend's second listener, for the harness alone: change the mode, look at the state."""

import msgspec

from chaos.frontend.connection import Call
from chaos.frontend.service import FrontendService, Mode
from scenarios.world.condition import Condition


class Wanted(msgspec.Struct, forbid_unknown_fields=True):
    """Body of POST /mode."""

    mode: Mode


class ControlService:
    """POST /mode {"mode": "ok" | "read_drop"}, POST /condition (what is not as it should be) and GET /state.

    All answer with the state.
    """

    def __init__(self, frontend: FrontendService) -> None:
        self._frontend = frontend

    def opened(self, call: Call) -> None:
        """Nothing is logged of the harness's own calls."""

    async def answer(self, call: Call) -> None:
        """Answer one call."""
        if (call.method, call.path) == ("POST", "/mode"):
            await self._set_mode(call)
        elif (call.method, call.path) == ("POST", "/condition"):
            await self._set_condition(call)
        elif (call.method, call.path) == ("GET", "/state"):
            await self._state(call)
        else:
            await call.error(404, "not_found", f"no {call.method} {call.path} here")

    async def _set_mode(self, call: Call) -> None:
        try:
            self._frontend.mode = msgspec.json.decode(bytes(call.body), type=Wanted).mode
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            await call.error(400, "bad_request", str(error))
        else:
            await self._state(call)

    async def _set_condition(self, call: Call) -> None:
        try:
            self._frontend.set_condition(msgspec.json.decode(bytes(call.body), type=Condition))
        except (msgspec.DecodeError, msgspec.ValidationError, ValueError) as error:
            await call.error(400, "bad_request", str(error))
        else:
            await self._state(call)

    async def _state(self, call: Call) -> None:
        frontend = self._frontend
        state = {"mode": frontend.mode, "in_flight": frontend.in_flight, "condition": frontend.condition}
        await call.whole(200, msgspec.json.encode(state))
