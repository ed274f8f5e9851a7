"""What tests of cursors share: engines, messages, and a consumer that writes down what it gets."""

from collections.abc import Iterable, Iterator

from sqlalchemy import Engine, text

from stores.cursor import Cursor, Message


def message(sequence: int, stream: str = "a", topic: str = "orders", **more: object) -> Message:
    """A message whose content says which it is."""
    content = f"{stream}{sequence}".encode()
    return Message(topic, stream, sequence, "Placed", content, **more)  # type: ignore[arg-type]


def make_table(engine: Engine) -> None:
    """The consumer's own table."""
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE done (stream TEXT, sequence BIGINT)"))


def consume(cursor: Cursor, limit: int = 10_000) -> list[str]:
    """Deliver one by one until nothing is due; what came, in order. Each is written to `done`."""
    came: list[str] = []
    with cursor.engine.connect() as connection:
        while len(came) < limit:
            with cursor.delivery(connection) as found:
                if found is None:
                    break
                write(connection, found)
                came.append(found.content.decode())
    return came


def write(connection: object, found: Message) -> None:
    connection.execute(  # type: ignore[attr-defined]
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


def of(came: Iterable[str], stream: str) -> Iterator[str]:
    return (each for each in came if each.startswith(stream))
