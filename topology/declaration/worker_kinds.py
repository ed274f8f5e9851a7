"""Where handlers with workers run, and how many events they take at once: what is refused."""

import inspect
from typing import Any, Literal

from topology.model.batches import Batch
from topology.model.errors import DeclarationError, HandlerError
from topology.model.pulled import PulledHandler

RunIn = Literal["tasks", "threads", "processes", "pulled"]

_ASYNC = {"tasks": True, "threads": False, "processes": False, "pulled": True}
"""Whether the handler is async."""
BATCH = 10_000
"""The most events of a batch."""


def checked_run_in(what: str, given: str | None, handler: Any, *, is_async: bool) -> RunIn:
    """Where a handler runs. Raises DeclarationError."""
    pulled = isinstance(handler, PulledHandler)
    default = "pulled" if pulled else "tasks" if is_async else "threads"
    run_in: Any = default if given is None else given
    if run_in not in [*_ASYNC]:
        names = ", ".join(map(repr, _ASYNC))
        raise DeclarationError(f"{what}: run_in={run_in!r}: use one of {names}")
    if pulled != (run_in == "pulled"):
        raise DeclarationError(
            f"{what}: run_in={run_in!r} with the handler {handler!r}: events are pulled from the "
            "handler that pulled() makes, and from no other; give both, or neither"
        )
    if _ASYNC[run_in] != is_async:
        use, kind = ("tasks", "an async") if is_async else ("threads", "a plain")
        raise DeclarationError(
            f"{what}: run_in={run_in!r} with {kind} handler; use run_in={use!r}, or make the "
            f"handler {'a plain function' if is_async else 'async'}"
        )
    if run_in == "processes":
        _check_importable(what, handler)
    checked: RunIn = run_in
    return checked


def _check_importable(what: str, handler: Any) -> None:
    """Whether another process finds the handler by its name."""
    module, name = getattr(handler, "__module__", None), getattr(handler, "__qualname__", "")
    why = None
    if not inspect.isfunction(handler):
        why = f"{handler!r} is no function"
    elif "<" in name:
        why = f"{name} is a lambda, or is defined inside of a function"
    elif module == "__main__":
        why = f"{name} is in the script that was started, which has no name to be imported by"
    if why is not None:
        raise DeclarationError(
            f"{what}: run_in='processes': {why}; define it with `def` in a module, outside of any "
            "function, and start the worker as `faust -A module worker`"
        )


def check_not_pulled(handler: Any) -> None:
    """Raise HandlerError where nobody could pull: outside of a worker."""
    if isinstance(handler, PulledHandler):
        raise HandlerError(
            "the view's events are pulled, and nobody pulls outside of a worker; give the test a "
            "topology with a handler in its place"
        )


def checked_batch(what: str, batch: object) -> Batch | None:
    """How many events a handler takes at once. Raises DeclarationError."""
    if batch is None:
        return None
    found = batch if isinstance(batch, Batch) else Batch(batch)  # type: ignore[arg-type]
    most: object = found.most
    if isinstance(most, bool) or not isinstance(most, int) or not 2 <= most <= BATCH:
        raise DeclarationError(f"{what}: batch={batch!r}: must be an int from 2 to {BATCH}")
    if found.of not in ("stream", "any"):
        raise DeclarationError(f"{what}: batch={batch!r}: of is 'stream' or 'any'")
    return found
