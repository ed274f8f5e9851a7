"""A version of the rules: all tables, rules and plug-ins of a router, checked and compiled."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from hashlib import sha256
from types import MappingProxyType
from typing import Any

import orjson

from topology.model.errors import DeclarationError, Malformed
from topology.model.event import Message, Record
from topology.model.names import checked_name
from topology.model.printable import printable
from topology.routing.broadcasts import Broadcast
from topology.routing.compiled import CompiledSource, compile_rules
from topology.routing.formats import Endpoint, FormatPlan, Formats, Made
from topology.routing.introspect.json_keys import JsonKeys
from topology.routing.introspect.key_module import Introspect, KeyModule
from topology.routing.router import route
from topology.routing.rules import RoutedSource, Rule
from topology.routing.tables import Keymap, Target, outbound_table
from topology.routing.trail import Detail, Routing, Trail
from topology.routing.transformations import Transformation, chain_format, known, run

MOST_RULES = 10_000
"""Rules of a version."""
MOST_ENDPOINTS = 10_000
"""Endpoints that are registered."""


class RuleSet:
    """One version of a router's rules. It does not change.

    Args:
        number: of the version, from 1.
        sources: the source topics.
        rules: the rules.
        destinations: name → the format that it reads, None for whatever comes.
        keymaps: the keymaps.
        outbound: outbound tables by name: as `outbound_table` makes them, or what it takes.
        modules: introspection modules by name.
        transformations: the plug-ins.
        endpoints: who else reads destinations, in formats of their own.
        site: where the router is; listeners of a broadcast of scope `"site"` are there.
        unit: the router, and what listeners of scope `"unit"` belong to.

    Raises:
        DeclarationError: a name is unknown, rules go in a circle, or a format does not fit.
    """

    def __init__(
        self,
        number: int,
        *,
        sources: Iterable[RoutedSource],
        rules: Iterable[Rule],
        destinations: Mapping[str, str | None],
        keymaps: Iterable[Keymap] = (),
        outbound: Mapping[str, Any] | None = None,
        modules: Mapping[str, KeyModule] | None = None,
        transformations: Iterable[Transformation] = (),
        endpoints: Iterable[Endpoint] = (),
        site: str = "",
        unit: str = "",
    ) -> None:
        if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number < 2**63:
            raise DeclarationError(f"rules: version {number!r}; versions are numbers from 1")
        self.number, self.site, self.unit = number, site, unit
        self.sources = _unique("source", sources, lambda source: source.topic)
        self.rules = _unique("rule", rules, lambda rule: rule.name)
        self.keymaps = _unique("keymap", keymaps, lambda keymap: keymap.name)
        self.outbound = {n: outbound_table(n, t) for n, t in (outbound or {}).items()}
        self.modules = dict(modules or {})
        self.destinations = {checked_name("destination", n): f for n, f in destinations.items()}
        self.registered = tuple(endpoints)
        read = {each.destination for each in self.registered}
        own = {
            name: Endpoint(name, name, form)
            for name, form in self.destinations.items()
            if form or name in read  # who reads a destination takes nothing from its topic
        }
        for each in self.registered:
            if each.name != each.destination and each.name in self.destinations:
                raise DeclarationError(
                    f"endpoint {each.name!r}: a destination is called so; name it otherwise"
                )
            own[each.name] = each
        broadcasts = [
            Broadcast(rule.name, rule.broadcast, rule.action, site, unit)
            for rule in self.rules.values()
            if rule.broadcast is not None
        ]
        self.formats = Formats(transformations, own.values(), broadcasts)
        self._broadcasts = {  # of those that have a listener
            each.rule: (each.name,)
            for each in broadcasts
            if any(each.reaches(one.listening) for one in own.values())
        }
        if len(self.rules) > MOST_RULES:
            raise DeclarationError(f"rules: {len(self.rules)} of them; the limit is {MOST_RULES}")
        if len(self.registered) > MOST_ENDPOINTS:
            raise DeclarationError(f"rules: over {MOST_ENDPOINTS} endpoints; unregister some")
        if not self.sources:
            raise DeclarationError("rules: no source; name at least one topic")
        self._check_names()
        self._check_circles()
        self._routed = {topic: self._check_source(each) for topic, each in self.sources.items()}
        self._after = {
            topic: chain_format(
                self.formats.transformations, self._routed[topic], each.after, f"source {topic!r}"
            )
            for topic, each in self.sources.items()
        }
        self.plans(self.formats)
        self._compiled = self._compile()

    @property
    def fired(self) -> dict[str, int]:
        """Rule → how often it led anywhere, since this version is there."""
        return {name: each.fired for name, each in self._rules_as_functions.items()}

    def route(self, message: Message, detail: Detail = "none") -> Routing:
        """Find a message's destinations. Never raises, whatever the message is.

        Args:
            message: the message.
            detail: how much of a trail is kept: `"none"`, `"fired"` for the rules that fired, or
                `"all"`.

        Returns:
            Where it goes; that it failed, and why; and how it came to that.
        """
        source = self._compiled.get(message.topic)
        if source is None:
            reason = f"topic {printable(message.topic)!r} is no source of these rules"
            return Routing(self.number, message, (), reason, _empty(message, self.number, detail))
        before = self.sources[message.topic].before
        if before:
            try:
                message = _with(message, self._run(before, message.value, message))
            except Malformed as error:
                trail = _empty(message, self.number, detail)
                return Routing(self.number, message, (), str(error), trail)
        return route(source, self.number, message, detail)

    def make(self, routing: Routing, formats: Formats | None = None) -> list[Made]:
        """Make what each endpoint of a routed message gets.

        Args:
            routing: as `route` gave it; without destinations nothing is made.
            formats: those with what endpoints registered while running; the version's own unless
                given.

        Returns:
            One for each endpoint, in the order of destinations.

        Raises:
            Malformed: a transformation failed; the message has failed then, for all endpoints.
        """
        if not routing.destinations:
            return []
        message, topic = routing.message, routing.message.topic
        formats = formats or self.formats
        content = self._run(self.sources[topic].after, message.value, message)
        return formats.make(self._after[topic], routing.destinations, content, message)

    def tried(self, message: Message, detail: Detail = "none") -> Routing:
        """Route a message as a process does: it fails, too, if it cannot be made for an endpoint.

        Args:
            message: the message.
            detail: as for `route`.
        """
        routing = self.route(message, detail)
        if routing.reason is None:
            try:
                self.make(routing)
            except Malformed as error:
                routing.reason, routing.destinations = str(error), ()
        return routing

    def plans(self, formats: Formats) -> Mapping[str, FormatPlan]:
        """Say what is made for whom, by source topic.

        Args:
            formats: with the endpoints that are registered.

        Returns:
            Topic → its plan. A transformation that is in none of them, and that no source names,
            is not used by anybody.

        Raises:
            DeclarationError: an endpoint reads what nothing makes, or has an unknown destination.
        """
        for endpoint in formats.endpoints.values():
            what = f"endpoint {endpoint.name!r}"
            known(endpoint.destination, self.destinations, what, "destination")
        return {
            topic: formats.plan(self._after[topic], self._destinations_of(self.reach(topic)))
            for topic in self.sources
        }

    def retired(self, formats: Formats) -> list[str]:
        """Name the transformations that nobody uses.

        Args:
            formats: with the endpoints that are registered.
        """
        used = {name for plan in self.plans(formats).values() for name in plan.used}
        used |= {n for source in self.sources.values() for n in (*source.before, *source.after)}
        return [name for name in formats.transformations if name not in used]

    def reach(self, topic: str) -> list[Rule]:
        """Name the rules that may look at a source's messages.

        Args:
            topic: the source's.
        """
        seen: dict[str, None] = {}
        ahead = [*self.sources[topic].rules]
        while ahead:
            name = ahead.pop()
            if name not in seen:
                seen[name] = None
                ahead += self._next(self.rules[name])
        return [self.rules[name] for name in seen]

    def leads_to(self, rule: str) -> tuple[str, ...]:
        """Name the destinations and further rules that a rule may lead to.

        Args:
            rule: its name.
        """
        found = self.rules[rule]
        return (*self._destinations_of([found]), *self._next(found))

    def using(self, keymaps: Iterable[str]) -> frozenset[str]:
        """Name the source topics whose messages are looked up in one of these keymaps.

        Args:
            keymaps: names of keymaps; unknown ones are used by nobody.
        """
        wanted = set(keymaps)
        return frozenset(
            topic
            for topic in self.sources
            if any(wanted & {*rule.named_keymaps()} for rule in self.reach(topic))
        )

    def with_keymaps(self, number: int, keymaps: Iterable[Keymap]) -> "RuleSet":
        """Return the next version, with other content of some keymaps.

        Args:
            number: of that version; greater than that of this one.
            keymaps: those that were loaded again.

        Raises:
            DeclarationError: the number is not greater, or a keymap is unknown.
        """
        if number <= self.number:
            raise DeclarationError(f"rules: version {number} does not follow {self.number}")
        kept = dict(self.keymaps)
        for keymap in keymaps:
            known(keymap.name, kept, f"rules, version {number}", "keymap")
            kept[keymap.name] = keymap
        return self._with(number, kept.values(), self.registered)

    def with_endpoints(self, number: int, endpoints: Iterable[Endpoint]) -> "RuleSet":
        """Return the rules with other endpoints registered.

        Args:
            number: of the version.
            endpoints: all that are registered.

        Raises:
            DeclarationError: one reads what nothing makes, or has an unknown destination.
        """
        return self._with(number, self.keymaps.values(), endpoints)

    def _with(
        self, number: int, keymaps: Iterable[Keymap], endpoints: Iterable[Endpoint]
    ) -> "RuleSet":
        return RuleSet(
            number,
            sources=self.sources.values(),
            rules=self.rules.values(),
            destinations=self.destinations,
            keymaps=keymaps,
            outbound=self.outbound,
            modules=self.modules,
            transformations=self.formats.transformations.values(),
            endpoints=endpoints,
            site=self.site,
            unit=self.unit,
        )

    @cached_property
    def digest(self) -> str:
        """A digest of all that decides, the same in every process that loaded the same."""
        content = [
            *(self.number, [*self.sources.values()], [*self.rules.values()], self.destinations),
            {name: keymap.digest for name, keymap in self.keymaps.items()},
            {name: dict(table) for name, table in self.outbound.items()},
            self.modules,
            [*self.formats.transformations.values()],
            sorted(self.formats.endpoints.items()),
            *((self.site, self.unit) if self.formats.broadcasts else ()),
        ]
        options = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_SORT_KEYS
        try:
            return sha256(orjson.dumps(content, default=_plain, option=options)).hexdigest()
        except orjson.JSONEncodeError as error:
            raise DeclarationError(f"rules, version {self.number}: {printable(error)}") from None

    def _run(self, names: Iterable[str], content: bytes | None, message: Message) -> bytes | None:
        for name in names:
            content = run(self.formats.transformations[name], content, message)
        return content

    def _next(self, rule: Rule) -> Iterator[str]:
        yield from rule.then
        for target in self.outbound[rule.outbound].values() if rule.outbound else ():
            yield from target.then

    def _destinations_of(self, rules: Iterable[Rule]) -> list[str]:
        found: dict[str, None] = {}
        for rule in rules:
            own = self._broadcasts.get(rule.name, ())
            found.update(dict.fromkeys((*rule.to, *rule.otherwise, *own)))
            for target in self.outbound[rule.outbound].values() if rule.outbound else ():
                found.update(dict.fromkeys(target.to))
        return list(found)

    def _check_names(self) -> None:
        for topic, source in self.sources.items():
            for name in source.rules:
                known(name, self.rules, f"source {topic!r}", "rule")
        for rule in self.rules.values():
            what = f"rule {rule.name!r}"
            if rule.outbound is not None:
                known(rule.outbound, self.outbound, what, "outbound table")
            if rule.module is not None:
                known(rule.module, self.modules, what, "introspection module")
            for name in rule.named_keymaps():
                known(name, self.keymaps, what, "keymap")
            _check_target(what, Target((*rule.to, *rule.otherwise), rule.then), self)
        for name, table in self.outbound.items():
            for tag, target in table.items():
                what = f"outbound table {name!r}, tag {printable(tag)!r}"
                _check_target(what, target, self)

    def _check_circles(self) -> None:
        try:
            TopologicalSorter({n: self._next(rule) for n, rule in self.rules.items()}).prepare()
        except CycleError as error:
            circle = " → ".join(reversed(error.args[1]))
            raise DeclarationError(
                f"rules go in a circle: {circle}; a message would never leave it, so cut one arrow"
            ) from None

    def _check_source(self, source: RoutedSource) -> str:
        """The format that rules see. Raises DeclarationError where modules and keys do not fit."""
        what = f"source {source.topic!r}"
        routed = chain_format(self.formats.transformations, source.format, source.before, what)
        if source.module is not None:
            known(source.module, self.modules, what, "introspection module")
            self._check_reads(what, source.module, routed)
        for rule in self.reach(source.topic):
            module = rule.module or source.module
            who = f"rule {rule.name!r}, reached from {what}"
            if module is not None:
                self._check_reads(who, module, routed)
                names = self.modules[module].names
                for key in rule.named_keys() if names is not None else ():
                    known(key, dict.fromkeys(names or ()), f"{who}: module {module!r}", "key")
            elif rule.named_keys() and routed != "json":
                raise DeclarationError(
                    f"{who}: it reads key {rule.named_keys()[0]!r}, but its format is {routed!r} "
                    "and it has no introspection module; name one"
                )
        return routed

    def _check_reads(self, what: str, module: str, routed: str) -> None:
        reads = self.modules[module].reads
        if reads is not None and reads != routed:
            raise DeclarationError(
                f"{what}: module {module!r} reads {reads!r}, but gets {routed!r}; transform it "
                "before routing, or name another module"
            )

    def _compile(self) -> dict[str, CompiledSource]:
        starts = [name for source in self.sources.values() for name in source.rules]
        modules = {name: module.compile() for name, module in self.modules.items()}
        rules = self._rules_as_functions = compile_rules(
            self.rules, self.keymaps, self.outbound, modules, starts, self._broadcasts
        )
        found = {}
        for topic, source in self.sources.items():
            name, introspect = source.module or "", modules.get(source.module or "")
            if source.module is None:
                name, introspect = self._paths(topic)
            first = tuple(rules[each] for each in reversed(source.rules))
            found[topic] = CompiledSource(name, introspect, first)
        return found

    def _paths(self, topic: str) -> tuple[str, Introspect | None]:
        """The module of a source without one: keys are paths into JSON."""
        own = [rule for rule in self.reach(topic) if rule.module is None]
        keys = {key: key for rule in own for key in rule.named_keys()}
        return ("JSON paths", JsonKeys(keys).compile()) if keys else ("", None)


def _check_target(what: str, target: Target, rules: RuleSet) -> None:
    for name in target.to:
        known(name, rules.destinations, what, "destination")
    for name in target.then:
        known(name, rules.rules, what, "rule")


def _empty(message: Message, version: int, detail: Detail) -> Trail | None:
    return None if detail == "none" else Trail(message, version, detail, "", [])


def _with(message: Message, value: bytes | None) -> Message:
    if isinstance(message, Record):
        return replace(message, value=value)
    m = message
    return Record(m.topic, m.partition, m.offset, m.key, value, m.headers, m.timestamp)


def _plain(value: Any) -> Any:
    """What the digest is made of, where JSON has no such type."""
    if is_dataclass(value) and not isinstance(value, type):
        return [type(value).__name__, {f.name: getattr(value, f.name) for f in fields(value)}]
    if isinstance(value, MappingProxyType):
        return dict(value)
    if isinstance(value, KeyModule):
        own = {name: each for name, each in vars(value).items() if not name.startswith("_")}
        return [type(value).__name__, own]
    if isinstance(value, frozenset | bytes):
        return sorted(value)
    return f"{getattr(value, '__module__', '')}:{getattr(value, '__qualname__', type(value))}"


def _unique(kind: str, given: Iterable[Any], name: Callable[[Any], str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in given:
        if name(each) in found:
            raise DeclarationError(f"{kind} {name(each)!r} is there twice; rename one of them")
        found[name(each)] = each
    return found
