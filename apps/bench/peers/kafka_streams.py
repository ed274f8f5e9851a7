"""Kafka Streams: its jars, and our program compiled against them; nothing but the JVM is needed.

The runtime has no Java compiler, so Eclipse's, which is a jar, does it.
"""

import shutil
import subprocess
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from sequitur.local import jars, jvm
from sequitur.local.home import HOME, LocalError

VERSION = "4.1.0"
SOURCE = Path(__file__).with_name("Resequence.java")
PINS = Path(__file__).with_name("jars.sha256")
FOLDER = HOME / "bench"
JARS = FOLDER / "jars"


@dataclass(frozen=True, slots=True)
class PeerBundle(jars.Bundle):
    """A bundle that the bench alone needs, with the pins in the bench's own file."""

    def pins(self) -> dict[str, str]:
        """File name → SHA-256 in hexadecimal, of every jar of the bundle."""
        pinned = (line.split("  ", 1) for line in PINS.read_text().splitlines())
        paths = ((digest, *path.split("/", 1)) for digest, path in pinned)
        return {name: digest for digest, folder, name in paths if folder == self.name}


STREAMS = PeerBundle(
    "kafka-streams",
    (
        f"org.apache.kafka:kafka-streams:{VERSION}",
        "com.fasterxml.jackson.core:jackson-databind:2.19.0",
        "org.slf4j:slf4j-simple:1.7.36",
    ),
    transitive=True,
)
COMPILER = PeerBundle("ecj", ("org.eclipse.jdt:ecj:3.42.0",), transitive=False)


def missing() -> str | None:
    """What is not installed."""
    if not jars.installed(STREAMS, JARS):
        return "its jars are not installed"
    return None if _classes().is_dir() else "its program is not compiled"


def install() -> None:
    """Fetch the jars and compile the program. Raises LocalError."""
    for bundle in (STREAMS, COMPILER):
        try:
            jars.install(bundle, JARS)
        except LocalError as error:
            reason = str(error).partition("\n  Remedy")[0]
            again = "check the network and run scripts/bench engine --install again"
            raise LocalError("Kafka Streams", reason, again) from error
    _compile()


def command() -> list[str]:
    """The command that runs the program. Call it when nothing is missing."""
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return [str(jvm.java()), quiet, "-cp", f"{_classes()}:{JARS / STREAMS.name}/*", "Resequence"]


def _classes() -> Path:
    """Where the program's classes are, once compiled: another source is another folder."""
    return FOLDER / "classes" / sha256(SOURCE.read_bytes()).hexdigest()[:12]


def _compile() -> None:
    target = _classes()
    if target.is_dir():
        return
    made = target.with_name(target.name + ".partial")
    shutil.rmtree(made, ignore_errors=True)
    library = ":".join(str(jar) for jar in sorted((JARS / STREAMS.name).glob("*.jar")))
    (compiler,) = COMPILER.pins()
    done = subprocess.run(
        [
            *(str(jvm.java()), "-jar", str(JARS / COMPILER.name / compiler)),
            *("-21", "-nowarn", "-encoding", "UTF-8", "-proc:none"),
            *("-cp", library, "-d", str(made), str(SOURCE)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode or not (made / "Resequence.class").is_file():
        raise LocalError("Kafka Streams", f"{done.stdout}{done.stderr}", "correct the program")
    made.rename(target)
