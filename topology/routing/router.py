"""Routing a message by compiled rules: the one place where destinations are decided."""

from topology.model.errors import Malformed
from topology.model.event import Message
from topology.routing.compiled import CompiledRule, CompiledSource, CompiledTarget
from topology.routing.conditions import AnyCondition
from topology.routing.introspect.key_module import Memo
from topology.routing.introspect.key_values import Keys
from topology.routing.trail import Detail, Look, Routing, Trail

_NO_KEYS: Keys = {}
_NO_TARGETS: list[CompiledTarget] = []


def route(source: CompiledSource, version: int, message: Message, detail: Detail) -> Routing:
    """Route a message; the trail comes from the very steps that decide."""
    looks: list[Look] | None = None if detail == "none" else []
    trail = None if looks is None else Trail(message, version, detail, source.module, looks)
    memo: Memo = {}
    found: dict[str, None] = {}
    at: CompiledRule | None = None
    try:
        keys = _NO_KEYS if source.introspect is None else source.introspect(message, memo)
        if trail is not None:
            trail.found = keys
        pile = list(source.first)
        done = set()
        while pile:
            at = pile.pop()
            if at.shared:
                if at in done:
                    continue
                done.add(at)
            own = keys if at.introspect is None else at.introspect(message, memo)
            failed: AnyCondition | None = None
            for test, condition in at.tests:
                if not test(own, message):
                    failed = condition
                    break
            tags: tuple[str, ...] = ()
            targets = _NO_TARGETS
            if failed is None:
                if at.tags is None:
                    targets = at.always
                elif tags := at.tags(own, message):
                    targets = []
                    for tag in tags:
                        target = at.outbound.get(tag, at.otherwise)
                        if target is not None:
                            targets.append(target)
                    if len(tags) > 1:  # several may lead to the same
                        targets = [*dict.fromkeys(targets)]
                    if targets:
                        targets += at.always
                at.fired += bool(targets)
                for target in targets:
                    for name in target.to:
                        found[name] = None
                for target in reversed(targets):
                    pile += target.then
            if looks is not None:
                looks.append((at, own, tags, targets, failed))
    except Malformed as error:
        reason = str(error) if at is None else f"rule {at.rule.name!r}: {error}"
        return Routing(version, message, (), reason, trail)
    return Routing(version, message, tuple(found), None, trail)
