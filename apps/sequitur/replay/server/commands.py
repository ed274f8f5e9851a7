"""`sequitur replay serve`, and replays by commands, which ask the log's database."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from sequitur.cli.options import COUNT, FILE, metrics_option, properties_option
from sequitur.cli.running import TOKEN_LENGTH, run_until_stopped
from sequitur.cli.statuses import BAD_NEWS, DONE
from sequitur.kafka.login import kafka_login
from sequitur.replay.process import in_one_line
from sequitur.replay.query_options import moment, print_json, query_options
from sequitur.replay.replay_file import ReplayFile
from stores.db.urls import read_url
from stores.replay import Query, ReplayError
from stores.replay.replay_state import ReplayAction, ReplayState
from stores.replay.replay_tables import Replay
from stores.replay.replays import FASTEST, ReplayRequest, Replays
from stores.user import user_name
from topology.model.collector import collect_seldom
from topology.model.printable import printable
from topology.monitoring.same_origin import loopback

TOKEN = "SEQUITUR_REPLAY_TOKEN"
"""The variable that has the token of who may change something."""
ROUTER = "sequitur-replay"
"""In the transactional ids of replays, where a router's name is in those of segments."""
logger = logging.getLogger("replay")
_file = click.argument("file", type=FILE)
_id = click.argument("id")
_REFUSED = click.Choice(["stop", "skip"])


def _who(command: Callable[..., int]) -> Callable[..., int]:
    """Add who does it, and why."""
    actor = click.option("--actor", default=user_name, help="Default: your user name.")
    reason = click.option("--reason", required=True, help="Why, which is kept.")
    return actor(reason(command))


@click.command()
@_file
@properties_option
@metrics_option
def serve(file: Path, kafka_properties: Path | None, metrics: str | None) -> int:
    """Serve queries, replays and recoveries over HTTP, and carry them out.

    /openapi.json describes it. Start any number: one of them runs a replay, another
    goes on with it when that one dies. Who changes something shows the token of
    SEQUITUR_REPLAY_TOKEN, or of the file that FILE names.
    """

    def run(found: ReplayFile) -> int:
        # What they import is not needed by any other command.
        from sequitur.replay.server.application import serve as serve_http
        from sequitur.replay.server.control_topic import ControlTopic
        from sequitur.replay.server.pages import ServerPages
        from sequitur.replay.server.service import Service
        from sequitur.replay.server.work import ReplayWork
        from stores.replay.recoveries import ROUTER as THROUGH
        from stores.replay.recoveries import Recoveries
        from stores.replay.recovery_topics import RecoveryTopics
        from stores.replay.retention_timer import RetentionTimer
        from stores.segments.transports.kafka import KafkaOutbound

        server, secret = found.server, token(found)
        recoveries = Recoveries(Replays(found.log()))
        recoveries.create()
        kafka = kafka_login(found.replay.broker, kafka_properties)
        topics = RecoveryTopics(kafka)
        router: Any = None
        if server.router is not None:  # by its name: routers know of replays, not the other way
            routing = import_module("sequitur.route.replay_way")
            endpoints = partial(routing.registered, kafka)
            router = routing.RouterWay(found.folder / server.router, endpoints)
        applications = {name: each.topics for name, each in found.application.items()}
        service = Service(recoveries, topics, applications, router, server.query_seconds)
        routes = service.routes()
        ways = {} if router is None else {THROUGH: router}
        holder = f"{socket.gethostname()}/{os.getpid()}"
        outbound, lease = partial(KafkaOutbound, kafka, ROUTER), found.replay.lease
        work = ReplayWork(recoveries, topics, outbound, ways, holder, lease=lease)
        reading = server.reading or ("open" if loopback(server.host) else "token")
        if reading == "open" and not loopback(server.host):
            raise ReplayError('[server] reading = "open" is for loopback alone; leave it out')

        collect_seldom()

        async def serving(stopped: asyncio.Event) -> None:
            logger.info("the replay log is at http://%s:%d", server.host, server.port)
            where, opened = (server.host, server.port), reading == "open"
            working = [asyncio.create_task(work.run(stopped))]
            if found.replay.keep is not None:
                timer = RetentionTimer(recoveries.replays.log, found.replay.keep, holder)
                working.append(asyncio.create_task(timer.run(stopped)))
            requests: Mapping[str, int] = {}
            if server.requests is not None:
                control = ControlTopic(service, kafka, server.requests)
                working.append(asyncio.create_task(control.run(stopped)))
                requests = control.counts
            for each in working:  # without one of them the server would only seem to work
                each.add_done_callback(lambda _: stopped.set())
            try:
                async with ServerPages(recoveries, service, kafka, requests).at(metrics):
                    await serve_http(routes, secret, *where, stopped, open_reading=opened)
            finally:
                stopped.set()
                await asyncio.gather(*working)

        return run_until_stopped(serving)

    return in_one_line(run, file)


@click.command()
@_file
@query_options
@click.option("--to", multiple=True, required=True, metavar="[TOPIC=]TARGET", help="Repeatable.")
@click.option("--rate", type=click.FloatRange(0.001, FASTEST), help="Messages a second.")
@click.option("--refused", type=_REFUSED, default="stop", show_default=True)
@_who
def preview(
    file: Path,
    query: Callable[[], Query],
    to: tuple[str, ...],
    rate: float | None,
    refused: str,
    actor: str,
    reason: str,
) -> int:
    """Freeze what a query finds now, count it, and print the replay's ID.

    Nothing is published before it is started. --to TARGET is where all of it goes,
    --to TOPIC=TARGET where that topic's messages go.
    """
    given = [
        (each.partition("=")[0] if "=" in each else "*", each.rpartition("=")[2]) for each in to
    ]
    targets = dict(given)

    def run(replays: Replays) -> int:
        if len(targets) < len(given):
            raise ReplayError("--to names a topic twice: where its messages go is one topic")
        asked = ReplayRequest(query(), targets, actor, reason, rate, refused)
        return _say(replays.preview(asked))

    return _on_replays(file, run)


def _acting(action: ReplayAction, about: str) -> click.Command:
    def act(file: Path, id: str, actor: str, reason: str, refused: str | None = None) -> int:
        def run(replays: Replays) -> int:
            return _say(replays.act(id, action, actor, reason, on_refused=refused))

        return _on_replays(file, run)

    made: Any = _file(_id(_who(act)))
    if action is ReplayAction.RESUME:
        option = click.option("--refused", type=_REFUSED, help="skip: leave out what is refused.")
        made = option(made)
    return click.command(action.value, help=about)(made)


@click.command()
@_file
@click.argument("id", required=False)
@click.option("--limit", type=COUNT, default=20, show_default=True)
@click.option("--json", "json", is_flag=True, help="As JSON.")
def status(file: Path, id: str | None, limit: int, json: bool) -> int:
    """List replays, or show the one with an ID and what was done to it.

    Ends with status 1 where one of them is stopped by what was refused, or failed.
    """

    def run(replays: Replays) -> int:
        found = replays.newest(limit) if id is None else [replays.get(id)]
        for each in found:
            if json:
                print_json(_as_json(each))
            else:
                _say(each)
        if id is not None and not json:
            for one in replays.history(id):
                who, why = printable(one.actor), printable(one.reason, 400)
                print(f"{moment(one.at)} {one.action} by {who}: {why}")
            count, first = replays.refused(id)
            for at, reason in first:
                print(f"message {at} was left out: {printable(reason, 200)}")
            if count > len(first):
                print(f"{count - len(first)} more were left out")
        stopped = any(each.why or each.state is ReplayState.FAILED for each in found)
        return BAD_NEWS if stopped else DONE

    return _on_replays(file, run)


COMMANDS: list[click.Command] = [
    *(serve, preview),
    _acting(ReplayAction.START, "Start the replay with an ID; a server carries it out."),
    _acting(ReplayAction.PAUSE, "Pause a replay, within a page of messages."),
    _acting(ReplayAction.RESUME, "Go on with a replay where it was paused."),
    _acting(ReplayAction.CANCEL, "End a replay for good; what is published stays."),
    status,
]


def token(file: ReplayFile) -> str:
    """The token. Raises ReplayError where there is none."""
    named = file.server.token
    text = os.environ.get(TOKEN, "")
    if named is not None:
        text = read_url(f"@{file.folder / named.removeprefix('@')}")
    if len(text) < TOKEN_LENGTH or not text.isascii() or not text.isprintable():
        raise ReplayError(
            f'set {TOKEN}, or [server] token = "@FILE", to a secret of at least {TOKEN_LENGTH} '
            "ASCII characters"
        )
    return text


def _on_replays(file: Path, run: Callable[[Replays], int]) -> int:
    def work(found: ReplayFile) -> int:
        replays = Replays(found.existing_log())
        replays.create()
        return run(replays)

    return in_one_line(work, file)


def _as_json(replay: Replay) -> dict[str, Any]:
    same = ("id", "created", "count", "done", "rate", "actor", "reason", "why", "position", "way")
    given = {name: getattr(replay, name) for name in same}
    more = {"state": replay.state.value, "query": replay.query.to_json()}
    return {**given, **more, "targets": dict(replay.targets), "holes": list(replay.holes)}


def _say(replay: Replay) -> int:
    to = ", ".join(f"{each} → {there}" for each, there in replay.targets.items())
    what = f"{replay.done} of {replay.count} messages, {printable(to, 200)}"
    why = f": {printable(replay.why, 400)}" if replay.why else ""
    print(f"{replay.id}\t{replay.state}\t{what}{why}")
    for each in replay.holes if replay.state is ReplayState.PREVIEWED else ():
        print(f"gone: {printable(each, 200)}")
    return DONE
