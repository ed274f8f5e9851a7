"""Files as a transport: a file of lines is consumed; a file per destination and topic is written.

What is written and how far it is confirmed change together: a file beside them says both, and it is
replaced at once. What is behind that is cut off when the next publisher begins.
"""

import asyncio
import fcntl
import logging
import os
import re
import threading
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from stat import S_ISREG
from typing import BinaryIO

import orjson

from stores.paths import is_there
from stores.segments.chain import segment_prefix
from stores.segments.errors import DestinationDown, PublishRefused, SegmentError
from stores.segments.files import LocalFolder
from stores.segments.message import InboundMessage, OutboundBatch, Pair, Place

logger = logging.getLogger(__name__)
_DESTINATION = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
_CHUNK = 1_000_000
_BEGINNING = 65_536
"""Bytes by which a file is known."""
LONGEST_LINE = 10_000_000
_LONGEST = 255
"""Characters of a file's name."""
_LOOK = 0.05
"""Seconds between two looks at a file that has nothing new."""


class FileInbound:
    """See `Inbound`: the lines of one file, which may grow; a position is a byte. One partition.

    Args:
        topic: its name as a topic.
        file: where it is.
        longest: bytes of a line; of a longer one the beginning goes to errors.
    """

    def __init__(self, topic: str, file: str | Path, *, longest: int = LONGEST_LINE) -> None:
        self.topic, self._file, self._longest, self._at = topic, Path(file), longest, 0
        # Where a long line begins, and up to where its end was sought.
        self._sought = (0, 0)

    async def start(self, positions: Mapping[int, int]) -> None:
        self._at = positions.get(0, 0)
        if await asyncio.to_thread(self._recognise, None) is None:
            logger.warning("%s: %s is not there yet", self.topic, self._file)

    async def poll(self, most: int, seconds: float) -> Sequence[InboundMessage]:
        while not (found := await asyncio.to_thread(self._read, self._at, most)) and seconds > 0:
            await asyncio.sleep(min(seconds, _LOOK))
            seconds -= _LOOK
        self._at = found[-1].behind if found else self._at
        return found

    async def acknowledge(self, positions: Mapping[int, int]) -> None:
        """The file stays as it is."""

    async def recognise(self, known: str | None) -> str | None:
        """See `Recognising`: a file is known by its beginning, as far as it was consumed."""
        return await asyncio.to_thread(self._recognise, known)

    async def stop(self) -> None:
        """Nothing is open."""

    def _recognise(self, known: str | None) -> str | None:
        with suppress(FileNotFoundError), self._opened() as file:
            length, _, _ = (known or "0").partition(":")
            beginning = file.read(_BEGINNING)
            if (size := os.fstat(file.fileno()).st_size) < self._at:
                raise self._another(f"has {size} bytes, and {self._at} were consumed")
            if known is not None and _fingerprint(beginning[: int(length)]) != known:
                raise self._another(f"begins with other {length} bytes than what was consumed")
            return _fingerprint(beginning[: self._at])
        return known

    def _opened(self) -> BinaryIO:
        if not S_ISREG(self._file.stat().st_mode):  # a pipe would hold it up for ever
            raise SegmentError(f"{self._file} is no file of lines")
        return self._file.open("rb")

    def _another(self, how: str) -> SegmentError:
        return SegmentError(f"{self._file} {how}: it is another file; give it another topic's name")

    def _read(self, at: int, most: int) -> list[InboundMessage]:
        found: list[InboundMessage] = []
        with suppress(FileNotFoundError), self._opened() as file:
            file.seek(at)
            enough = at + _CHUNK
            while len(found) < most and at < enough:
                line, damage = file.readline(self._longest + 1), ""
                if len(line) > self._longest and not line.endswith(b"\n"):
                    if not self._skip(file, at):
                        break
                    damage = f"a line of {file.tell() - at} bytes; {self._longest} are the limit"
                    line = line[:_BEGINNING] + b"\n"
                elif not line.endswith(b"\n"):
                    break
                where = (self.topic, 0, at, at := file.tell())
                found.append(InboundMessage(*where, line[:-1], damage=damage))
        return found

    def _skip(self, file: BinaryIO, at: int) -> bool:
        """Go behind the line that begins at `at`; False: it has no end yet."""
        if self._sought[0] == at:
            file.seek(max(file.tell(), self._sought[1]))
        while part := file.readline(_CHUNK):
            if part.endswith(b"\n"):
                return True
        self._sought = at, file.tell()
        return False


class FileOutbound:
    """See `Outbound`: a destination is a file `<destination>+<topic>.lines` of the folder.

    Args:
        folder: where; made if it is not there.
        router: whose pairs; a part of the names of what it keeps beside the lines.
    """

    keeps_start = True
    topics_apart = True
    """There is a file for each topic."""

    def __init__(self, folder: str | Path, router: str = "router") -> None:
        self._folder, self._router = Path(folder), router
        self._files: LocalFolder | None = None
        self._lock = -1
        # Whoever stops waits for a write that is under way: its waiter may have been cancelled.
        self._writing = threading.Lock()
        self._place: Place | None = None
        self._lengths: dict[str, int] = {}

    async def start(self, pair: Pair) -> Place | None:
        try:
            return await asyncio.to_thread(self._start, pair)
        except OSError as error:
            raise DestinationDown(f"folder {self._folder}: {error}") from error

    async def publish(self, batch: OutboundBatch) -> None:
        lines: dict[str, list[bytes]] = {}
        for index, message in enumerate(batch.messages):
            name = _name(message.destination, batch.pair)
            if not _DESTINATION.fullmatch(message.destination) or len(name) > _LONGEST:
                raise PublishRefused(index, "its destination is no name of a file")
            if message.value is None:
                raise PublishRefused(index, "it has no value, and a message is a line")
            if b"\n" in message.value:
                raise PublishRefused(index, "it has a line break, and a message is a line")
            lines.setdefault(name, []).append(message.value + b"\n")
        try:
            await asyncio.to_thread(self._write, batch, lines)
        except OSError as error:
            raise DestinationDown(f"folder {self._folder}: {error}") from error

    async def stop(self) -> None:
        await asyncio.to_thread(self._let_go)

    def _let_go(self) -> None:
        with self._writing:
            lock, self._lock = self._lock, -1
            if lock >= 0:
                os.close(lock)

    def _start(self, pair: Pair) -> Place | None:
        with self._writing:
            return self._take(pair)

    def _take(self, pair: Pair) -> Place | None:
        segment_prefix(self._router, pair)  # so that no pair's files are taken for another's
        self._files = files = LocalFolder(self._folder)
        lock = self._folder / f".{self._stem(pair)}.lock"
        self._lock = os.open(lock, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # who still writes is waited for
        self._place, self._lengths = None, {}
        took = self._take_former(pair)
        names = [name for name in files.names() if name.endswith(_name("", pair))]
        others = self._others(pair)  # behind the names: who writes a file has noted it before
        names = [name for name in names if name not in others]
        if is_there(confirmed := self._confirmed(pair)):
            self._place, self._lengths = _read(confirmed)
        else:
            if lines := next(filter(files.size, names), None):
                raise _unknown(confirmed, f"is not there, and {lines} has lines")
            self._confirm(files, pair, None, {})  # now, so that it is missing only if it was lost
        for name in names if took else self._lengths:
            if files.size(name) > self._lengths.get(name, 0):
                files.cut(name, self._lengths.get(name, 0))
        return self._place

    def _take_former(self, pair: Pair) -> bool:
        """Take what an earlier version kept, who did not note files before it wrote them."""
        former, confirmed = self._folder / f".{pair.topic}.confirmed", self._confirmed(pair)
        if is_there(former) and not is_there(confirmed):
            with (self._folder / f".{pair.topic}.lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                former.replace(confirmed)
            return True
        return False

    def _others(self, pair: Pair) -> dict[str, str]:
        """File of lines → what says how far another router, or transport, has written it."""
        mine, former = self._confirmed(pair), f".{pair.topic}.confirmed"
        kept = {*self._folder.glob(f".*+{pair.topic}+*.confirmed"), *self._folder.glob(former)}
        return {name: each.name for each in kept - {mine} for name in _read(each)[1]}

    def _write(self, batch: OutboundBatch, lines: Mapping[str, Sequence[bytes]]) -> None:
        with self._writing:
            if self._files is None or self._lock < 0:
                raise OSError("it was let go of")
            self._append(self._files, batch, lines)

    def _append(
        self, files: LocalFolder, batch: OutboundBatch, lines: Mapping[str, Sequence[bytes]]
    ) -> None:
        if new := lines.keys() - self._lengths.keys():
            self._claim(files, batch.pair, new)
        lengths = dict(self._lengths)
        for name, some in lines.items():
            data, at = b"".join(some), lengths.get(name, 0)
            if (size := files.size(name)) != at:
                raise OSError(f"{name} has {size} bytes, and {at} are confirmed: put it back")
            files.write(name, at, data)
            files.sync(name)
            lengths[name] = at + len(data)
        self._confirm(files, batch.pair, batch.behind, lengths)

    def _claim(self, files: LocalFolder, pair: Pair, new: Set[str]) -> None:
        """Note files before they are written: no other router or transport writes them then."""
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            others = self._others(pair)
            for name in new & others.keys():
                raise OSError(
                    f"{name} is another router's or transport's, as {others[name]} says: give each "
                    "a folder of its own; where that one is gone, move its files away"
                )
            self._confirm(files, pair, self._place, {**self._lengths, **dict.fromkeys(new, 0)})
        finally:
            os.close(folder)

    def _confirm(
        self, files: LocalFolder, pair: Pair, place: Place | None, lengths: dict[str, int]
    ) -> None:
        confirmed = self._confirmed(pair)
        new = f"{confirmed.name}.new"
        at = None if place is None else [*place]
        files.remove(new)
        files.write(new, 0, orjson.dumps({"place": at, "lengths": lengths}))
        files.sync(new)
        (self._folder / new).replace(confirmed)
        files.sync_folder()
        self._place, self._lengths = place, lengths

    def _stem(self, pair: Pair) -> str:
        return f"{self._router}+{pair.topic}+{pair.transport}"

    def _confirmed(self, pair: Pair) -> Path:
        return self._folder / f".{self._stem(pair)}.confirmed"


def _read(confirmed: Path) -> tuple[Place | None, dict[str, int]]:
    """The place behind what is published, and how long each file is then."""
    try:
        found = orjson.loads(confirmed.read_bytes())
        lengths, place = dict(found["lengths"]), found["place"]
        return None if place is None else Place(*place), lengths
    except (ValueError, KeyError, TypeError):
        raise _unknown(confirmed, "is damaged") from None


def _unknown(confirmed: Path, what: str) -> SegmentError:
    return SegmentError(
        f"{confirmed} {what}: it says which lines are published, and others would be cut off; put "
        "it back, or move the lines away"
    )


def _fingerprint(beginning: bytes) -> str:
    return f"{len(beginning)}:{blake2b(beginning, digest_size=16).hexdigest()}"


def _name(destination: str, pair: Pair) -> str:
    return f"{destination}+{pair.topic}.lines"
