"""A handler's failure: what is done about it, and how the error log tells it."""

import traceback
from dataclasses import dataclass

import orjson

from topology.declaration.policies import Advance, ErrorPolicy, Halt, OnError, Park, Retry
from topology.declaration.view import View
from topology.engine.commit_unit import CommitUnit
from topology.model.errors import described
from topology.model.event import Event
from topology.model.printable import printable

REPORT_LIMIT = 40_000
"""Characters of a traceback or body in the error log; the rest is at the position it names."""
LINE = 1_000
"""Characters of a line of a traceback in the process's log."""


@dataclass(frozen=True, slots=True)
class FailureAction:
    """What is done about a failed event.

    done: in words, for the error log. held: whether its stream is set aside. retry: the number
    of the retry that follows, 0 if none does. delay: seconds until then. halts: whether the view
    stops.
    """

    done: str
    held: bool = False
    retry: int = 0
    delay: float = 0.0
    halts: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """An event whose handler failed, and what is done about it. error: in words."""

    event: Event
    action: FailureAction
    error: str


def action_of(policy: OnError, retried: int) -> FailureAction:
    """What the policy says of an event that failed after it was retried `retried` times."""
    if isinstance(policy, Retry):
        if retried < policy.times:
            number = retried + 1
            delay = policy.delay(number)
            done = f"retry {number} of {policy.times} in {delay:g} s"
            return FailureAction(done, held=True, retry=number, delay=delay)
        policy = policy.then
    if isinstance(policy, Park):
        return FailureAction("park", held=True)
    if isinstance(policy, Halt):
        return FailureAction("halt", held=True, halts=True)
    return FailureAction("advance")


def decided(policy: OnError, event: Event, error: BaseException, retried: int) -> FailureAction:
    """What is done about a failed event; a policy of the user's is asked for each."""
    if not isinstance(policy, ErrorPolicy):
        return action_of(policy, retried)
    name = type(policy).__name__
    try:
        chosen = policy.on_error(event, error)
    except BaseException as wrong:  # nobody cancels a plain function
        return FailureAction(f"park, since {name} raised {printable(described(wrong))}", held=True)
    if not isinstance(chosen, Advance | Retry | Park):
        return FailureAction(f"park, since {name} returned {printable(repr(chosen))}", held=True)
    return action_of(chosen, retried)


WITHOUT_ROW = "handled but for this row"
"""What an error log says of an event of which all is done but for a row that could not be made."""
WITHOUT_MESSAGES = "handled but for its messages"
"""The same where Kafka refused what it sent, and its SQL was committed already."""
HEALED = "handled in a rebuild"
"""What the error log says of an event that failed before, and does not any more."""


def log_healed(view: View, event: Event, unit: CommitUnit) -> None:
    """Write to the error log topic that an event is handled which it has as failed."""
    report = {
        "view": view.name,
        "stream": event.stream,
        "sequence": event.sequence,
        "kind": None if event.kind is None else readable(event.kind),
        "position": position(event),
        "error": "",
        "done": HEALED,
    }
    headers = [("view", view.name.encode())]
    out = (event.stream.encode(), orjson.dumps(report), unit.now, headers)
    unit.keyed[view.errors_topic].append(out)


def log_failure(
    view: View, event: Event, error: BaseException, done: str, unit: CommitUnit, rows: int = 1
) -> str:
    """Write a failure to the error log topic and the process's log. Returns the error in words.

    rows: how many it is about, where it is about rows.
    """
    message = event.message
    trace, text = readable(_traceback(error)), readable(described(error))
    value = message.value
    report = {
        "view": view.name,
        "stream": event.stream,
        "sequence": event.sequence,
        "kind": None if event.kind is None else readable(event.kind),
        "position": position(event),
        "error": text,
        "traceback": trace,
        "done": done,
        **({} if rows == 1 else {"rows": rows}),
        "value": None if value is None else readable(value.decode("utf-8", "replace")),
    }
    headers = [("view", view.name.encode())]
    out = (event.stream.encode(), orjson.dumps(report), unit.now, headers)
    unit.keyed[view.errors_topic].append(out)
    unit.reports.append(
        f"view {view.name}: stream {printable(event.stream)} sequence {event.sequence} "
        f"({message.topic}/{message.partition} offset {message.offset}) failed; "
        f"done: {done}; " + "\n".join(printable(line, LINE) for line in trace.split("\n"))
    )
    return text


def position(event: Event) -> dict[str, str | int]:
    """Where the event's message lies, for a record that tells of it."""
    message = event.message
    return {"topic": message.topic, "partition": message.partition, "offset": message.offset}


def readable(text: str) -> str:
    """Text that JSON can hold, whatever an exception or a body contains."""
    return text[:REPORT_LIMIT].encode("utf-8", "backslashreplace").decode()


def _traceback(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))
    except BaseException:
        return "".join(traceback.format_tb(error.__traceback__)) + type(error).__name__
