"""What tests of inboxes share: engines, messages, and a consumer that writes down what it gets."""

from collections.abc import Iterable

from sqlalchemy import Connection, Engine, text

from stores.inbox.inbox import Inbox
from stores.message import Message


def message(sequence: int, stream: str = "a", topic: str = "orders", **more: object) -> Message:
    """A message whose content says which it is."""
    content = f"{stream}{sequence}".encode("utf-8", "replace")
    return Message(topic, stream, sequence, "Placed", content, **more)  # type: ignore[arg-type]


def make_table(engine: Engine) -> None:
    """The consumer's own table."""
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE done (stream TEXT, sequence BIGINT)"))


def consume(inbox: Inbox, limit: int = 10_000, batch: int = 1) -> list[str]:
    """Deliver until nothing is due; what came, in order. Each is written to `done`."""
    came: list[str] = []
    with inbox.engine.connect() as connection:
        while len(came) < limit:
            with inbox.batch(connection, batch) as messages:
                for each in messages:
                    write(connection, each)
            if not messages:
                break
            came += [each.content.decode() for each in messages]
    return came


def refuse(inbox: Inbox, connection: Connection, error: BaseException) -> None:
    """Begin to process the next message, and fail."""
    with inbox.delivery(connection) as found:
        assert found is not None
        write(connection, found)
        raise error


def write(connection: Connection, found: Message) -> None:
    connection.execute(
        text("INSERT INTO done VALUES (:stream, :sequence)"),
        {"stream": found.stream, "sequence": found.sequence},
    )


def done(engine: Engine) -> list[str]:
    """What the consumer's table has, in order of stream and sequence."""
    with engine.connect() as connection:
        rows = connection.execute(text("SELECT stream, sequence FROM done ORDER BY 1, 2"))
        return [f"{stream}{sequence}" for stream, sequence in rows]


def named(stream: str, sequences: Iterable[int]) -> list[str]:
    return [f"{stream}{sequence}" for sequence in sequences]
