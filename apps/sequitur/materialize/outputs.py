"""What a materializer reads: the outputs of a topology, read anew when its code has changed."""

import math
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, Self

from sequitur.kafka.options import OptionError
from topology import DeclarationError, Table, Topology
from topology.model.dotted import find
from topology.model.errors import described
from topology.model.names import checked_topic

Files = Mapping[str, tuple[int, int] | None]
"""File → when it was changed (ns) and how large it is; None where it is not there."""

AGAIN_SECONDS = 30.0
"""After which code that could not be read is tried again, although nothing changed."""
_CHILD_SECONDS = 60.0
_CHILD = (
    "import sys; from sequitur.materialize.outputs import tell; "
    "tell(int(sys.argv[1]), *sys.argv[2:])"
)


class Outputs(NamedTuple):
    """Output topics, their declared tables, and where bad records go."""

    topics: list[str]
    tables: list[Table]
    dead_topic: str | None


def load_topology(place: str) -> Topology:
    """The topology at `MODULE:NAME`, `:topology` if there is no name. Raises DeclarationError.

    Where NAME is a module of the package MODULE, the topology is that of the same name in it.
    """
    sys.path.insert(0, "")
    found: Topology = find("topology", place, "topology", lambda one: isinstance(one, Topology))
    return found


def named(topics: str, dead_topic: str | None) -> Outputs:
    """Outputs by the topics' names, with commas. Raises DeclarationError."""
    names = [checked_topic(name.strip()) for name in topics.split(",")]
    return Outputs(names, [], checked_topic(dead_topic) if dead_topic else None)


def outputs_of(place: str, dead_topic: str | None) -> Outputs:
    """The outputs of the topology at `place`.

    dead_topic: None for the topology's own, empty for none. Raises DeclarationError, OptionError.
    """
    topology = load_topology(place)
    if dead_topic:
        checked_topic(dead_topic)
    views = topology.views.values()
    if not views:
        raise OptionError(f"topology {place!r} has no views, so no output topics")
    dead = f"{topology.name}.dead-records" if dead_topic is None else dead_topic or None
    tables = [table for view in views for table in view.tables]
    return Outputs([view.output for view in views], tables, dead)


class Deployed:
    """A topology's outputs, and whether another version of its code lies there by now.

    Modules stay imported, so the code is read anew by a process of its own; when any file of the
    modules that the topology was imported with has changed, and has then stayed as it is from one
    look to the next. What could not be read is tried again now and then: a file may be missing.
    """

    def __init__(self, place: str, dead_topic: str | None) -> None:
        self._place, self._dead_topic = place, dead_topic
        self.outputs, self._files = _loaded(place, dead_topic)
        self._seen = self._files
        self._reading: subprocess.Popen[bytes] | None = None
        self._until = self._again = math.inf
        self._error = ""

    def look(self) -> bool:
        """Whether the outputs are other ones now; to be called every few seconds.

        Raises DeclarationError, once for each reason why they cannot be told.
        """
        if self._reading is not None:
            return self._read(self._reading)
        now = _stamps(self._files)
        settled, self._seen = now == self._seen, now
        if settled and (now != self._files or time.monotonic() >= self._again):
            self._files = now
            self._start()
        return False

    @property
    def read(self) -> bool:
        """Whether the outputs are those of the code that was looked at last."""
        return not self._error

    @property
    def reading(self) -> bool:
        """Whether another version is being read at this moment."""
        return self._reading is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Read no more."""
        if self._reading is not None:
            self._reading.kill()
            self._reading.communicate()
            self._reading = None

    def _start(self) -> None:
        self._until = time.monotonic() + _CHILD_SECONDS
        self._told = tempfile.TemporaryFile()  # noqa: SIM115
        path = os.pathsep.join(os.path.abspath(each) for each in sys.path)
        self._reading = subprocess.Popen(
            [sys.executable, "-c", _CHILD, str(self._told.fileno()), self._place,
             *([] if self._dead_topic is None else [self._dead_topic])],
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            pass_fds=[self._told.fileno()],
        )  # fmt: skip

    def _read(self, child: "subprocess.Popen[bytes]") -> bool:
        if child.poll() is None:
            if time.monotonic() < self._until:
                return False
            child.kill()
        child.wait()
        self._reading = None
        with self._told as told:
            told.seek(0)
            text = told.read()
        try:
            found = pickle.loads(text)
        except Exception as error:  # it was cut off, or is of a class that is not known here
            found = (
                f"topology {self._place!r}: reading it anew ended with status {child.returncode}: "
                f"{described(error)}"
            )
        if isinstance(found, str):
            self._again = time.monotonic() + AGAIN_SECONDS
            if found == self._error:
                return False
            self._error = found
            raise DeclarationError(found)
        outputs, self._files = found
        self._seen, self._again, self._error = self._files, math.inf, ""
        changed = outputs != self.outputs
        self.outputs = outputs
        return bool(changed)


def tell(descriptor: int, place: str, dead_topic: str | None = None) -> None:
    """Write to a file what `_loaded` returns, or the text of its error."""
    found: object
    try:
        found = _loaded(place, dead_topic)
    except (DeclarationError, OptionError) as error:
        found = str(error)
    with open(descriptor, "wb") as file:
        pickle.dump(found, file)


def _loaded(place: str, dead_topic: str | None) -> tuple[Outputs, Files]:
    """The outputs, and the files that they were imported from."""
    before = set(sys.modules)
    package = place.partition(":")[0].partition(".")[0]
    outputs = outputs_of(place, dead_topic)
    names = {name for name in sys.modules if name not in before or name.split(".")[0] == package}
    files = (getattr(sys.modules[name], "__file__", None) for name in names)
    return outputs, _stamps(filter(None, files))


def _stamps(files: Iterable[str]) -> Files:
    return {file: _stamp(Path(file)) for file in files}


def _stamp(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
