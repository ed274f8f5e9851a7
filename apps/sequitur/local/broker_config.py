"""How the local broker is configured, each setting different from Kafka's own for a reason."""

import shutil
import subprocess
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

from sequitur.local import class_archives, jars, jvm
from sequitur.local.home import LocalError
from sequitur.local.ports import HOST, free_port
from stores.paths import is_there

JVM_OPTIONS: tuple[str, ...] = ("-XX:+ExitOnOutOfMemoryError",)
# Also the JVM's: warnings and errors, and when the broker came and went.
_LOGGING = tuple(
    f"-Dorg.slf4j.simpleLogger.{name}={value}"
    for name, value in (
        ("defaultLogLevel", "warn"),
        ("log.kafka.server.KafkaRaftServer", "info"),
        ("showDateTime", "true"),
        ("dateTimeFormat", "yyyy-MM-dd HH:mm:ss.SSS"),
        ("showThreadName", "false"),
    )
)


def properties(data: Path, port: int, controller_port: int) -> dict[str, str]:
    """Return the broker's properties for its folder and its two ports, both on loopback."""
    return {
        # One node that is broker and controller.
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(data / "records"),
        # There is nobody to replicate to.
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        # A first consumer and a first transaction wait for these topics to be made: keep them few.
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "4",
        "group.initial.rebalance.delay.ms": "0",
        # A test that kills a worker waits for its session to end; the default minimum is 6 s.
        "group.min.session.timeout.ms": "1000",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
        # A misspelt topic, or one with the wrong partitions, must not come into being unnoticed.
        "auto.create.topics.enable": "false",
        # Events carry the times at which they happened; retention would delete those of long ago.
        "log.retention.ms": "-1",
        # Small enough for a heap of 512 MB beside other work.
        "log.cleaner.dedupe.buffer.size": "16777216",
        "num.network.threads": "2",
        "num.io.threads": "4",
        "background.threads": "2",
    }


def check_folder(data: Path) -> None:
    """Raise LocalError where Kafka cannot have its records in a folder of this name."""
    name = str(data)
    if "," in name or name != name.encode(errors="replace").decode():
        raise LocalError(
            f"Kafka broker in {data}",
            "Kafka takes a comma for the end of a folder's name, and reads none that is not UTF-8",
            "choose another folder",
        )


def configure(data: Path, port: int, settings: Mapping[str, str], heap: str = "512m") -> list[str]:
    """Write the properties, format a new folder, and return the command that runs the broker.

    Raises LocalError where the jars are missing or the folder cannot be formatted.
    """
    written = properties(data, port, free_port()) | dict(settings)
    file = data / "server.properties"
    file.write_text("".join(f"{name}={_escaped(value)}\n" for name, value in written.items()))
    records = data / "records"
    if not is_there(records / "meta.properties"):
        shutil.rmtree(records, ignore_errors=True)  # half-formatted by a run that was killed
        command = _java("kafka.tools.StorageTool", "format", "-t", _cluster_id(), "-c", str(file))
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise LocalError(
                f"Kafka broker in {data}",
                f"its folder cannot be formatted:\n{done.stdout}{done.stderr}",
                "check that the folder is writable and the disk not full",
            )
    return _java("kafka.Kafka", str(file), heap=heap)


def is_broker_of(data: Path, command: str) -> bool:
    """Whether a process with this command line is the broker of the folder."""
    return "kafka.Kafka" in command and str(data / "server.properties") in command


def _escaped(text: str) -> str:
    """As Java reads a value: what is not plain ASCII by its UTF-16 units."""
    units = text.encode("utf-16-be")
    each = (int.from_bytes(units[n : n + 2], "big") for n in range(0, len(units), 2))
    return "".join(chr(u) if 0x20 < u < 0x7F and u != 0x5C else f"\\u{u:04x}" for u in each)


def _java(*arguments: str, heap: str = "512m") -> list[str]:
    classes = f"{jars.folder(jars.BROKER)}/*"
    archive = class_archives.BROKER
    mapped = class_archives.mapping(archive) if archive.is_file() else []
    options = (f"-Xmx{heap}", *mapped, *JVM_OPTIONS, *_LOGGING)
    return [str(jvm.java()), *options, "-cp", classes, *arguments]


def _cluster_id() -> str:
    """Return a random Kafka uuid: 16 bytes in URL-safe base 64, unpadded, no dash in front."""
    return "S" + urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")[1:]
