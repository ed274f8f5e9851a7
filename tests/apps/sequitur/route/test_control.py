"""What a control topic says of its processes."""

from sequitur.route.control import BEATS, LOG, ControlLog
from topology import Record
from topology.routing import Joined, Left, encode_control


def test_who_is_silent_is_said_by_offsets_whatever_clocks_say() -> None:
    log = ControlLog()
    for offset, name in enumerate(("a", "b", "c")):
        log.take(Record("t", LOG, offset, None, encode_control(Joined(name))))
        log.take(Record("t", BEATS, offset, name.encode(), b'{"period": 3}', (), 2**42))
    assert log.silent() == ["a", "b", "c"]
    assert log.patience() == 15
    log.take(Record("t", BEATS, 3, b"a", b'{"period": 3}', (), 0), live=True)
    log.take(Record("t", BEATS, 4, b"b", None, (), 0), live=True)  # it says that it ends
    log.take(Record("t", LOG, 3, None, encode_control(Left("c"))), live=True)
    assert log.silent() == ["b"]
