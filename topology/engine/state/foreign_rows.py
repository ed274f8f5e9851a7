"""Rows of a changelog that no engine wrote: told before a table takes them.

Whoever may write to a changelog can leave anything there. A row that cannot be read would end each
start of its partition; one under a key of the table's own would change where it stands.
"""

import math
from collections.abc import Callable
from typing import Any

import orjson

from topology.engine.state.lateness import BINS, decode_lateness
from topology.engine.state.positions import decode_positions
from topology.engine.state.rows import (
    COUNTS,
    HOLES,
    LATENESS,
    POSITIONS,
    TORN,
    WORK,
    decode_holes,
    decode_message,
    decode_note,
    decode_progress,
    split_cell_key,
    without_state,
)
from topology.engine.state.work_status import decode_work_status
from topology.model.counts import decode_counts, position_of
from topology.model.errors import described
from topology.sequencer.progress import Progress

_MOST = 2**63 - 1
_STREAM = ord("p")
_UNREADABLE = (
    ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError,
)  # fmt: skip
_KEYS: dict[bytes, int] = {
    b"p": 2,
    b"b": 11,
    b"r": 11,
    b"d": 10,
    b"e": 2,
    b"g": 2,
    b"m": 9,
    b"x": 9,
    b"k": 17,
    b"s": 4,
}
"""The first byte of a key → how many it has at least."""


def foreign(key: bytes | None, value: bytes | None) -> str:
    """Why a row is none of an engine's, empty if it is one. value: None deletes the row."""
    # Nearly all rows are of streams in order, and are restored at hundreds of thousands a second.
    short = key and value and key[0] == _STREAM and len(key) > 1 and len(value) < 19
    if short and value.isdigit() and key.isascii() and b"\0" not in key:  # type: ignore[union-attr,operator]
        return ""
    try:
        if key is None:
            return "it has no key"
        known = key[:1]
        if key in _VALUES:
            if value is not None:
                _VALUES[key](value)
            return ""
        if known not in _KEYS or len(key) < _KEYS[known]:
            return "no row has such a key"
        if known == b"m" and value is not None:
            _note(value)
        if known in b"mx":
            return "" if len(key) == 9 else "no row has such a key"
        if known == b"k":
            if value is not None and not isinstance(orjson.loads(value)["function"], str):
                raise ValueError("it is no intent")
            return "" if len(key) == 17 else "no row has such a key"
        if known == b"s":
            return _cell(key, value)
        end = None if known in b"pdeg" else -9
        stream = key[9 if known == b"d" else 1 : end].decode()
        if "\0" in stream or (end and key[end]):
            return "no row has such a key"
        if known == b"p":
            if value is not None and not (value.isdigit() and len(value) < 19):
                _progress(value)
        elif known == b"e":
            _whole(int(value or b"1"), 1)
        elif known == b"g":
            _torn(value or b"1")
        elif value is not None and known != b"d":
            _message(value)
    except _UNREADABLE as error:
        return described(error)
    return ""


def _progress(value: bytes) -> None:
    # Its state may be large, and is the handler's own: it only has to be an object.
    progress, state = decode_progress(value)
    if state is not None and state[:1] != b"{":
        raise ValueError("the state is no object")
    if without_state(value)[-1:] not in b"}0123456789":
        raise ValueError("it is no progress")
    if not isinstance(progress, Progress):
        _whole(progress)
        return
    retry = progress.retry or ()
    both = (*progress.skipped, *progress.below)
    ranges = [at for each in both for at in each]
    pairs = all(first <= last for first, last in both)
    numbers = [
        progress.last,
        *retry,
        *ranges,
        *progress.recent,
        *progress.rebuild,
        *progress.failed,
        *progress.sent,
        0 if progress.forgot is None else progress.forgot,
    ]
    for number in numbers:
        _whole(number)
    times = progress.since, progress.rejected, progress.closed or 0
    for number in (*times, progress.epoch, progress.anew):
        _whole(number, 0)
    if not isinstance(progress.held, bool) or not pairs:
        raise ValueError("it is no progress")


def _cell(key: bytes, value: bytes | None) -> str:
    stream, own = split_cell_key(key)
    if not stream or not own:
        return "no row has such a key"
    if value is not None:
        at, *values = orjson.loads(value)
        _whole(at)
        if [type(each) is list and len(each) < 2 for each in values] != [True, True]:
            raise ValueError("it is no cell")
    return ""


def _message(value: bytes) -> None:
    record, arrived = decode_message(value)
    for number in (record.partition, record.offset, record.timestamp):
        _whole(number)
    _whole(arrived, 0)
    if not isinstance(record.topic, str) or not all(
        type(name) is str for name, _ in record.headers
    ):
        raise ValueError("it is no message")


def _note(value: bytes) -> None:
    for note in decode_note(value):
        for number in (note.offset, note.mark, note.arrived):
            _whole(number, 0)
        for number in (note.timestamp, note.sequence):
            _whole(number)
        if not note.stream or "\0" in note.stream:
            raise ValueError("it is no event of a stream")


def _counts(value: bytes) -> None:
    found = decode_counts(value)
    for name in found.__dataclass_fields__:
        _whole(getattr(found, name), -_MOST)
    _whole(position_of(value) or 0, 0)


def _lateness(value: bytes) -> None:
    found = decode_lateness(value)
    for number, weight in found.bins.items():
        if not 0 <= number < BINS or not 0 <= weight < math.inf:
            raise ValueError("it is no sketch")
    for stream, *numbers in found.given_up:
        if not isinstance(stream, str):
            raise ValueError("it is no sketch")
        for at in numbers:
            _whole(at)


def _positions(value: bytes) -> None:
    found = decode_positions(value)
    for number in (found.redelivered, found.commands):
        _whole(number, 0)
    for maybe in (found.input, found.began, found.missed):
        _whole(maybe or 0, 0)
    if not isinstance(found.halted, str | None) or not 0 <= found.ahead.bit_length() <= 1 << 20:
        raise ValueError("it is no position")


def _holes(value: bytes) -> None:
    position, _ = decode_holes(value)
    _whole(position, 0)


def _torn(value: bytes) -> None:
    if value != b"1":
        raise ValueError("it says nothing")


def _whole(number: Any, least: int = -_MOST - 1) -> None:
    if type(number) is not int or not least <= number <= _MOST:
        raise ValueError(f"{number!r} is no number of a row")


_VALUES: dict[bytes, Callable[[bytes], object]] = {
    COUNTS: _counts,
    HOLES: _holes,
    LATENESS: _lateness,
    POSITIONS: _positions,
    TORN: _torn,
    WORK: decode_work_status,
}
