"""Archives of classes, which a JVM maps into its memory in place of reading and checking jars.

Spark and the broker start with little more than half of the CPU so. `scripts/setup` makes them; a
JVM whose own build or jars are others than those of an archive says nothing and starts without.
"""

from pathlib import Path

from sequitur.local.home import HOME

_FOLDER = HOME / "classes"
JAVA = _FOLDER / "java.jsa"
"""The runtime's own classes, on which the others stand."""
BROKER = _FOLDER / "broker.jsa"
SPARK = _FOLDER / "spark.jsa"
ALL = JAVA, BROKER, SPARK

# What does not fit is no matter for standard output, which Spark's launcher reads.
_QUIET = ("-Xlog:cds*=off", "-Xlog:class+path*=off")


def mapping(archive: Path) -> list[str]:
    """The options that have a JVM map an archive."""
    return [f"-XX:SharedArchiveFile={archive}", *_QUIET]


def writing(archive: Path) -> list[str]:
    """The options that have a JVM write an archive of what it has loaded, as it ends."""
    return [*mapping(JAVA), f"-XX:ArchiveClassesAtExit={archive}"]
