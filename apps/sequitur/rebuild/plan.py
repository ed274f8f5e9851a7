"""The plan of a rebuild, kept in its work folder from the first moment on.

It says what is rebuilt from what, up to where, and how far that is; so a rebuild that was killed
goes on with the same plan, and what it left is recognised.
"""

import gc
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any, Literal
from uuid import uuid4

from stores.db.urls import without_password
from topology import Topology, View
from topology.declaration.source import Source
from topology.faust.worker.snapshot import Snapshot, snapshot_from

Stage = Literal["build", "follow"]
_HOLDERS = (CellType, MethodType, partial, tuple, list, dict)
_MANY = 1_000
"""What holds more than so many things holds data, and no functions."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked for. views: by name. history: where messages come from, see `build`.

    streams, since, until: of a rebuild of some streams only; times are in ms. code: a hash of the
    files that handlers and inspectors are in.
    """

    views: tuple[str, ...]
    store: str
    history: tuple[str, ...]
    streams: tuple[str, ...] = ()
    since: int | None = None
    until: int | None = None
    emit: bool = False
    hashes: bool = False
    slices: int = 0
    code: str = ""

    @property
    def partial(self) -> bool:
        """Whether only some streams are rebuilt."""
        return bool(self.streams) or self.since is not None or self.until is not None


@dataclass(slots=True)
class Plan:
    """shadow: of the read store. fold: whether each stream's changes are made one record.

    slices: of each source, 0 before the first is begun; a stream stays in its own, however many
    cores go on. dead: records of what was rebuilt that the store did not take, once all of it is
    there. tables: by view, the names of those that it wrote then.
    """

    request: Request
    snapshot: Snapshot
    shadow: str = field(default_factory=lambda: f"r{uuid4().hex[:8]}")
    stage: Stage = "build"
    fold: bool = True
    slices: int = 0
    dead: int = 0
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)


class WorkFolder:
    """A folder for one rebuild at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.plan_file = self.path / "plan.json"
        self.slices = self.path / "slices"
        self.limits = self.path / "limits.arrow"

    def load(self) -> Plan | None:
        """The plan that was left here, None if there is none."""
        try:
            kept = json.loads(self.plan_file.read_text())
        except (OSError, ValueError):
            return None
        asked: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in kept["request"].items()
        }
        # A plan of an earlier version may show more of the URL than is shown now.
        asked["store"] = without_password(asked["store"])
        return Plan(
            Request(**asked),
            snapshot_from(kept["snapshot"]),
            kept.get("shadow") or kept["side"],  # "side" in one of an earlier version
            kept["stage"],
            kept["fold"],
            kept.get("slices", 0),
            kept.get("dead", 0),
            {view: tuple(names) for view, names in kept.get("tables", {}).items()},
        )

    def save(self, plan: Plan) -> None:
        """Keep a plan; all of it or nothing."""
        self.path.mkdir(parents=True, exist_ok=True)
        kept: dict[str, Any] = {
            "request": asdict(plan.request),
            "snapshot": plan.snapshot.as_dict(),
            "shadow": plan.shadow,
            "stage": plan.stage,
            "fold": plan.fold,
            "slices": plan.slices,
            "dead": plan.dead,
            "tables": plan.tables,
        }
        new = self.plan_file.with_suffix(".new")
        with new.open("w") as file:
            json.dump(kept, file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.plan_file)

    def clear(self, *, limits: bool = True) -> None:
        """Forget the plan and all that was built; the plan last, so that nothing is mistaken.

        limits: those too, unless the next plan has the same snapshot.
        """
        shutil.rmtree(self.slices, ignore_errors=True)
        if limits:
            self.limits.unlink(missing_ok=True)
        self.plan_file.unlink(missing_ok=True)


def code_of(topology: Topology, views: Iterable[View]) -> str:
    """A hash of the files that have the topology, and what views and inspectors call."""
    names = {
        name
        for name, module in list(sys.modules.items())
        if isinstance(module, ModuleType)
        and any(
            issubclass(type(each), Topology) and each.name == topology.name
            for each in list(vars(module).values())
        )
    }
    for view in views:
        names |= _modules_of(view) | _modules_of(view.of.inspector)
    found = hashlib.blake2b(topology.name.encode(), digest_size=16)
    for name in sorted(names):
        file = getattr(sys.modules.get(name), "__file__", None)
        if file is not None:
            found.update(Path(file).read_bytes())
    return found.hexdigest()


def _modules_of(holder: object) -> set[str]:
    """The modules of a function, or of all functions that a view holds, as verbs' handlers do."""
    names: set[str] = set()
    seen: dict[int, object] = {}
    left = [holder]
    while left:
        each = left.pop()
        kind = type(each)
        if id(each) in seen or issubclass(kind, Topology | Source):
            continue
        seen[id(each)] = each
        names.add(getattr(each, "__module__", None) or kind.__module__)
        if isinstance(each, FunctionType):
            left += each.__closure__ or ()
        elif issubclass(kind, _HOLDERS) or kind.__module__.startswith("topology."):
            held = gc.get_referents(each)
            left += held if len(held) <= _MANY else ()
    return names
