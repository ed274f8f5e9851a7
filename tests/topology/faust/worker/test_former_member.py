"""What a worker's former self in its group keeps is looked for until the group's broker tells."""

from typing import Any

import pytest
from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata
from aiokafka.errors import GroupLoadInProgressError, NoError, NotCoordinatorForGroupError

import passthrough
from topology.faust.worker import retry_until_available
from topology.faust.worker.former_member import leave_if_changed

ASSIGNOR: Any = passthrough.app.assignor
MEMBER = "one-01234567-89ab-cdef-0123-456789abcdef"


class Response:
    def __init__(self, error: int, members: list[Any]) -> None:
        self.groups = [(error, "group", "Stable", "consumer", "faust", members)]
        self.error_code = error


class Coordinator:
    group_id = "group"
    _group_instance_id = "one"

    def __init__(self, *answers: Response) -> None:
        self.answers, self.sent, self.dead = list(answers), list[str](), 0

    async def ensure_coordinator_known(self) -> None:
        pass

    def coordinator_dead(self) -> None:
        self.dead += 1

    async def _send_req(self, request: Any) -> Response:
        self.sent.append(type(request).__name__)
        return self.answers.pop(0)


def members(metadata: bytes) -> list[Any]:
    return [(MEMBER, "client", "host", metadata, b""), ("two" + MEMBER, "", "", b"bad", b"")]


def metadata(*topics: str) -> bytes:
    made: bytes = ASSIGNOR.metadata(set(topics)).encode()
    return made


async def left(*answers: Response) -> Coordinator:
    coordinator = Coordinator(*answers)
    fake: Any = coordinator
    await leave_if_changed(fake, ASSIGNOR, {"a", "b"}, "broker")
    assert not coordinator.answers
    return coordinator


@pytest.mark.parametrize("error", [GroupLoadInProgressError, NotCoordinatorForGroupError])
async def test_a_group_that_is_loaded_or_moved_is_asked_again(
    error: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry_until_available, "FIRST", 0.0)
    found = Response(NoError.errno, members(metadata("a", "old")))
    coordinator = await left(Response(error.errno, []), found, Response(error.errno, []), found,
                             Response(NoError.errno, []))  # fmt: skip
    assert coordinator.sent == ["DescribeGroupsRequest"] * 2 + [
        "LeaveGroupRequest", "DescribeGroupsRequest", "LeaveGroupRequest",
    ]  # fmt: skip
    assert coordinator.dead == 2


async def test_a_member_that_has_not_changed_stays() -> None:
    coordinator = await left(Response(NoError.errno, members(metadata("b", "a"))))
    assert coordinator.sent == ["DescribeGroupsRequest"]


@pytest.mark.parametrize(
    "foreign", [b"\x00", ConsumerProtocolMemberMetadata(0, ["a", "b"], b"").encode()]
)
async def test_what_another_program_left_under_the_same_name_is_removed(foreign: bytes) -> None:
    found = Response(NoError.errno, members(foreign))
    coordinator = await left(found, Response(NoError.errno, []))
    assert coordinator.sent == ["DescribeGroupsRequest", "LeaveGroupRequest"]
