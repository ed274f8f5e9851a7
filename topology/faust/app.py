"""Compile a topology to a Faust app, for the ordinary `faust` command line."""

import os
import socket
import time
from typing import TYPE_CHECKING, Any

import faust
from faust.stores import STORES
from faust.types import StreamT
from faust.types._env import WEB_PORT
from faust.types.settings import Settings as FaustSettings
from pydantic import ValidationError
from yarl import URL

from topology.declaration.environment import with_inspectors
from topology.declaration.timeouts import Clock
from topology.declaration.topology import Topology
from topology.faust.cli import register
from topology.faust.processes import NumberedWorker
from topology.faust.settings import Settings
from topology.faust.worker.channel import WorkChannel
from topology.faust.worker.engine import Engine
from topology.faust.worker.rate_limited import Worker, install_log_filters
from topology.faust.worker.retry_until_available import retry_until_available
from topology.faust.worker.transport import TableManager, Transport
from topology.faust.worker.watch import Watchdog
from topology.faust.worker.watch.audit_report import audit_reporter
from topology.handler_process import home_of
from topology.model.closest import closest
from topology.model.collector import collect_seldom
from topology.model.errors import DeclarationError, first_of

if TYPE_CHECKING:
    from topology.faust.worker.queries import QueryServer
    from topology.faust.worker.watch.worker_pages import WorkerPages

STORES.aliases["sequitur"] = "topology.faust.worker.store:Store"

HEARTBEAT = 1.0

_PASSED_ON = {*FaustSettings.SETTINGS, "monitor", "config_source", "loop", "beacon"}
"""What a Faust app takes; of what else it is given it says nothing."""


class App(faust.App):
    """A Faust app that runs a topology; `compile` makes it.

    Attributes:
        engine: runs the partitions that the app's consumer group gives to this worker.
        watchdog: reports handlers that block the worker; None until the worker starts.
        pages: answers over HTTP, where the settings say so.
        queries: answers about the state of views, likewise.
    """

    engine: Engine
    watchdog: Watchdog | None = None
    pages: "WorkerPages | None" = None
    queries: "QueryServer | None" = None

    def _new_transport(self) -> Any:
        return Transport(self.conf.broker_consumer, self)

    async def on_first_start(self) -> None:
        """Make the data folder."""
        self.conf.datadir.mkdir(parents=True, exist_ok=True)
        if (url := self.engine.settings.queries_url) is not None:
            # Which --web-port has made that of Faust's own server.
            self.conf.canonical_url = URL(url)
        await super().on_first_start()

    async def on_start(self) -> None:
        """Wait for the broker, make the topics and begin to watch the handlers."""
        await super().on_start()
        install_log_filters()
        if self.engine.settings.metrics is not None:
            # Servers and their libraries are loaded by who has one.
            from topology.faust.worker.watch.worker_pages import WorkerPages

            self.pages = WorkerPages(self.engine)
            await self.pages.start(self.engine.settings.metrics)
        if self.engine.settings.queries is not None:
            from topology.faust.worker.queries import QueryServer

            self.queries = QueryServer(self, self.engine)
            await self.queries.start(self.engine.settings.queries)
        await retry_until_available(self.engine.prepare, self.engine.settings.broker)
        Clock.now = time.monotonic
        self.watchdog = Watchdog(f"{socket.gethostname()}/{os.getpid()}", audit_reporter(self))
        self.watchdog.start()
        collect_seldom()
        for topic in self.engine.topics:
            self.topics.add(self.topic(topic, key_type=bytes, value_type=bytes))

    async def on_stop(self) -> None:
        """Watch the handlers no longer."""
        if self.watchdog is not None:
            self.watchdog.stop()
        if self.pages is not None:
            await self.pages.stop()
        if self.queries is not None:
            await self.queries.stop()
        await super().on_stop()


def compile(topology: Topology, **settings: Any) -> App:
    """Make a Faust app of a topology, for `faust -A module worker`.

    The environment variable SEQUITUR_INSPECTOR_<SOURCE>, if set, names the inspector of a source.

    Args:
        topology: what to run.
        **settings: those of `Settings`, and any of Faust's own (`broker_credentials`,
            `ssl_context`, `web_port` …), which are passed on and win over what is derived from
            `Settings`.

    Returns:
        The app. Nothing is connected until a worker or a command starts.

    Raises:
        DeclarationError: the environment names an inspector that cannot be used, there is no
            setting of a name, or one is wrong.
    """
    topology = with_inspectors(topology, os.environ)
    known = set(Settings.model_fields)
    try:
        conf = Settings(**{name: value for name, value in settings.items() if name in known})
    except ValidationError as error:
        raise DeclarationError(f"compile: {first_of(error)}") from None
    passed = {name: value for name, value in settings.items() if name not in known}
    for name in passed:
        if name not in _PASSED_ON:
            near = closest(name, [*known, *_PASSED_ON])
            raise DeclarationError(f"compile: there is no setting {name!r}{near}")
    if (numbered := NumberedWorker.of(os.environ)) is not None:
        conf = numbered.settings(conf)
        passed["web_port"] = numbered.port(passed.get("web_port", WEB_PORT))
    app = App(
        conf.group or topology.name,
        **{
            "broker": [f"kafka://{host}" for host in conf.broker.split(";")],
            "store": "memory://",
            "datadir": conf.datadir,
            "topic_disable_leader": True,
            "topic_replication_factor": 1 if conf.replication < 1 else conf.replication,
            "table_standby_replicas": 0,
            "broker_session_timeout": conf.session_timeout,
            "broker_heartbeat_interval": conf.session_timeout / 5,
            "broker_request_timeout": max(90.0, conf.session_timeout + 10),  # Faust: not below it
            "consumer_group_instance_id": conf.instance,
            "stream_wait_empty": False,
            "web_host": "127.0.0.1",
            "web_bind": "127.0.0.1",
            "TableManager": TableManager,
            "Worker": Worker,
            # Where the group's leader tells the others that they find a partition's worker.
            **({"canonical_url": conf.queries_url} if conf.queries_url else {}),
            **passed,
        },
    )
    stages, topology = topology.stages, topology.first_stages()
    app.engine = Engine(app, topology, conf, stages)
    for source in topology.sources.values():
        if not source.keyed:
            _source_agent(app, topology, source.name, ", ".join(source.topics))
    for view in topology.views.values():
        table = app.Table(
            view.name,
            key_type=bytes,
            value_type=bytes,
            partitions=view.of.partitions,
            store="sequitur:///",
            help=f"Progress, buffers and stream states of view {view.name}.",
        )
        app.engine.changelogs[view.name] = table.changelog_topic_name  # type: ignore[attr-defined]
        concurrency = view.of.partitions if view.is_async else 1
        _view_agent(app, topology, view.name, view.of.by_stream, concurrency)

    for stage in stages:
        if stage.work.run_in == "processes":
            home_of(stage.view)
        table = app.Table(
            stage.name,
            key_type=bytes,
            value_type=bytes,
            partitions=stage.partitions,
            store="sequitur:///",
            help=f"What is committed ahead, stream states and parked events of {stage.view.name}.",
        )
        app.engine.changelogs[stage.name] = table.changelog_topic_name  # type: ignore[attr-defined]

    for route in topology.routes.values():
        for each in route.tables:
            table = app.Table(
                each.name,
                key_type=bytes,
                value_type=bytes,
                partitions=route.partitions,
                store="sequitur:///",
                help=f"What is parked of {each.topic}.",
            )
            app.engine.changelogs[each.name] = table.changelog_topic_name  # type: ignore[attr-defined]

    @app.on_partitions_revoked.connect
    async def on_revoked(*_: Any, **__: Any) -> None:
        await app.engine.revoke()

    @app.timer(interval=HEARTBEAT, name=f"{topology.name}.heartbeat")  # type: ignore[untyped-decorator]
    async def heartbeat() -> None:
        await app.engine.heartbeat()

    register(app)
    return app


def _source_agent(app: App, topology: Topology, name: str, topics: str) -> None:
    async def inspect_and_rekey(batches: StreamT[Any]) -> None:
        async for batch in batches:
            await batch.run()

    inspect_and_rekey.__doc__ = f"Inspect {topics} and re-key it by stream."
    channel = app.engine.context.sources[name] = WorkChannel(app, topics)
    app.agent(channel, name=f"{topology.name}.source.{name}")(inspect_and_rekey)


def _view_agent(app: App, topology: Topology, name: str, topic: str, concurrency: int) -> None:
    async def order_and_handle(batches: StreamT[Any]) -> None:
        async for batch in batches:
            await batch.run()

    order_and_handle.__doc__ = f"Order events and handle them for view {name}."
    channel = app.engine.context.views[name] = WorkChannel(app, topic)
    agent_name = f"{topology.name}.view.{name}"
    app.agent(channel, name=agent_name, concurrency=concurrency)(order_and_handle)
