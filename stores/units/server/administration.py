"""Administration of a server's members, over HTTP and as data."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import orjson
from aiohttp import web

from stores.db.steady_clock import steady
from stores.units.errors import UnitError
from stores.units.kafka.topics import members_of
from stores.units.naming import checked_name
from stores.units.server.owner import Owner
from stores.units.server.partitions import partitions_of
from stores.units.server.settings import ServerSettings
from stores.units.wire import FrameError, number, numbers, text

LISTED = 1_000
"""Units that one answer lists."""
ACTIONS = frozenset({"park", "redrive", "pause", "resume", "move", "delete"})


class Administration:
    """Answers administrators. owners: member → owner. members: see `OwnedPartitions`."""

    def __init__(
        self, settings: ServerSettings, owners: Mapping[int, Owner], members: dict[str, int]
    ) -> None:
        self._settings, self._owners, self._members = settings, owners, members

    async def status(self, request: web.Request) -> web.Response:
        """All members of this server, or the units of one: `?member=0&unit=NAME`."""
        if "member" not in request.query:
            return _json(partitions_of(self._owners.values()))
        owner = self._owner({"member": _asked(request)})
        if (unit := request.query.get("unit")) is not None:
            names: list[str | int] = [unit]
        else:
            names = owner.queue.listed(LISTED)
        return _json([asdict(owner.queue.status(name)) for name in names])

    async def records(self, request: web.Request) -> web.Response:
        """What was done by administration to a member."""
        owner = self._owner({"member": _asked(request)})
        return _json([asdict(each) for each in owner.queue.records()])

    async def carry_out(self, request: web.Request) -> web.Response:
        """An action: an object with action, member, unit or offsets, to, by, reason."""
        try:
            told = orjson.loads(await request.read())
            if not isinstance(told, dict) or told.get("action") not in ACTIONS:
                raise FrameError(f"action is one of {', '.join(sorted(ACTIONS))}")
            return _json(await self._act(told))
        except (ValueError, UnitError) as error:
            return web.json_response({"error": str(error)}, status=409)

    async def _act(self, told: dict[str, Any]) -> dict[str, Any]:
        owner, now = self._owner(told), steady()
        by, reason = text(told, "by", 200), str(told.get("reason") or "")[:1000]
        unit = told.get("unit")
        if unit is not None and not isinstance(unit, str | int):
            raise FrameError("unit is a name, or the offset of an ungrouped message")
        if isinstance(unit, str):
            checked_name(unit)
        queue, answer = owner.queue, dict[str, Any]()
        match told["action"]:
            case "pause" | "resume" as action:
                if isinstance(unit, int):
                    raise FrameError("only a unit, or the whole member, is paused")
                (queue.pause if action == "pause" else queue.resume)(unit, now, by, reason)
            case "move" | "delete" as action:
                offsets = numbers(told, "offsets")
                if unit is not None and not offsets:
                    offsets = [each.offset for each in queue.waiting(unit) if not each.handover]
                if action == "delete":
                    record = queue.delete(offsets, now, by, reason)
                else:
                    to = text(told, "to", 249)
                    if to == self._settings.destination:
                        raise UnitError("move to another topic: a unit stays in order on its own")
                    self._members.update(await members_of(self._settings.kafka, [to]))
                    record = queue.move(offsets, to, steady(), by, reason)
                answer = {"offsets": record.offsets, "breaks_order": record.breaks_order}
            case action:
                if unit is None and len(offsets := numbers(told, "offsets")) == 1:
                    unit = offsets[0]
                if unit is None:
                    raise FrameError(
                        f"{action} needs a unit, or the offset of an ungrouped message"
                    )
                if action == "park":
                    queue.park(unit, now, by, reason)
                else:
                    answer = {"messages": queue.redrive(unit, now, by, reason)}
        await owner.made_durable()
        return answer

    def _owner(self, told: Mapping[str, Any]) -> Owner:
        member = int(number(told, "member", 1 << 31))
        if (owner := self._owners.get(member)) is None:
            raise web.HTTPMisdirectedRequest(text=f"member {member} has another owner\n")
        return owner


def _asked(request: web.Request) -> int:
    member = request.query.get("member", "0")
    if not (member.isascii() and member.isdecimal() and len(member) < 10):
        raise web.HTTPBadRequest(text="member is the number of a partition\n")
    return int(member)


def _json(value: object) -> web.Response:
    return web.Response(body=orjson.dumps(value), content_type="application/json")
