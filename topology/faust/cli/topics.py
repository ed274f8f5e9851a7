"""`faust -A app topics`: what a topology needs, what is missing of it, and --create to make it."""

from typing import Any

from click import Context, IntRange, Parameter
from faust.cli import option

from topology.faust.cli.answering import AnsweringCommand
from topology.faust.cli.options import JSON, Duration
from topology.faust.kafka.broker.shapes import shapes_text
from topology.faust.operation.needed_topics import topics as needed


class _Retention(Duration):
    """How long a topic keeps its records, as days; -1 for ever."""

    def convert(self, value: str, param: Parameter | None, ctx: Context | None) -> float:
        return -1 if value == "unlimited" else super().convert(value, param, ctx) / 86_400


def register(app: Any) -> None:
    """Add the command to an app's command line."""

    @app.command(  # type: ignore[untyped-decorator]
        option("--create", is_flag=True, default=False, help="Make the topics that are missing."),
        option("--dry-run", is_flag=True, default=False, help="Say only what --create would make."),
        option(
            "--partitions", type=IntRange(min=0), default=0, show_default=False,
            help="Partitions of source topics to be made; else, and of keyed sources, as declared.",
        ),
        option(
            "--retention", type=_Retention(), default="0", show_default=False,
            help="Of source topics to be made: 30d, or unlimited; else the broker's default.",
        ),
        JSON,
        base=AnsweringCommand,
    )  # fmt: skip
    async def topics(
        self: AnsweringCommand, create: bool, dry_run: bool, partitions: int, retention: float
    ) -> None:
        """List the topics that the topology needs, and make them with --create.

        The exit status is 1 if a topic is missing or not as it should be.
        """
        found = await needed(
            self.app, create=create and not dry_run, partitions=partitions, retention=retention
        )
        bad = any(shape.state != "there" for shape in found)
        self.answer(shapes_text(found), [shape.as_dict() for shape in found], bad=bad)
