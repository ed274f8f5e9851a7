"""`faust -A app topics`: what a topology needs, what is missing of it, and --create to make it."""

from typing import Any

from faust.cli import option

from topology.faust.inspection.answering import JSON, Answering
from topology.faust.kafka.broker.shapes import shapes_of, shapes_text
from topology.faust.kafka.clients import create_topics
from topology.faust.worker.engine import Engine


def register_topics(app: Any) -> None:
    """Add the command to an app's command line."""

    @app.command(  # type: ignore[untyped-decorator]
        option("--create", is_flag=True, default=False, help="Make those that are missing."),
        option("--dry-run", is_flag=True, default=False, help="Only say what --create would make."),
        option(
            "--partitions",
            type=int,
            default=0,
            help="Of the source topics that are made; as many as their source has unless given.",
        ),
        option(
            "--retention",
            type=float,
            default=0,
            help="Days that the source topics that are made keep; -1 for ever, the broker's "
            "default unless given.",
        ),
        JSON,
        base=Answering,
    )
    async def topics(
        self: Answering, create: bool, dry_run: bool, partitions: int, retention: float,
        as_json: bool,
    ) -> None:  # fmt: skip
        """List the topics that the topology needs; the exit status is 1 if one is not right."""
        found = await _topics(self, create and not dry_run, partitions, retention)
        self.answer(shapes_text(found), [shape.as_dict() for shape in found], as_json)
        if any(shape.state != "there" for shape in found):
            raise SystemExit(1)


async def _topics(look: Answering, create: bool, partitions: int, retention: float) -> list[Any]:
    if partitions < 0:
        raise ValueError(f"--partitions {partitions}: it must be 1 at least")
    engine: Engine = look.app.engine  # type: ignore[attr-defined]
    wanted = [*engine.given(partitions, retention), *engine.needed()]
    found = await shapes_of(look.app, wanted)
    missing = [shape.topic for shape in found if shape.partitions is None]
    if create and missing:
        await create_topics(look.app, missing, engine.settings.replication)
        found = await shapes_of(look.app, wanted)
    return found
