"""The jars that no Python package carries: the Kafka broker, Spark's Kafka connector, Delta Lake.

Ivy fetches them by their coordinates; `jars.sha256` says which files they have to be.
"""

import shutil
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from sequitur.local import jvm
from sequitur.local.certificates import proxy_options, trust_stores
from sequitur.local.home import HOME, JARS, LOGS, LocalError, locked
from sequitur.local.process import spawn, tail

PINS = Path(__file__).with_name("jars.sha256")


@dataclass(frozen=True, slots=True)
class Bundle:
    """Jars that belong together, in a folder of their own.

    coordinates: `organisation:module:revision` of each. transitive: with all that they depend on.
    """

    name: str
    coordinates: tuple[str, ...]
    transitive: bool

    def pins(self) -> dict[str, str]:
        """File name → SHA-256 in hexadecimal, of every jar of the bundle."""
        pins: dict[str, str] = {}
        for line in PINS.read_text().splitlines():
            digest, _, path = line.partition("  ")
            folder, _, name = path.partition("/")
            if folder == self.name:
                pins[name] = digest
        return pins

    def ivy_file(self) -> str:
        """The declaration that Ivy reads."""
        dependencies = []
        for coordinate in self.coordinates:
            organisation, module, revision = coordinate.split(":")
            dependencies.append(
                f'    <dependency org="{organisation}" name="{module}" rev="{revision}"'
                f' transitive="{str(self.transitive).lower()}"/>'
            )
        return "\n".join(
            [
                '<ivy-module version="2.0">',
                f'  <info organisation="sequitur" module="{self.name}"/>',
                '  <dependencies defaultconf="*->default">',
                *dependencies,
                "  </dependencies>",
                "</ivy-module>",
            ]
        )


# The broker alone has nowhere to log to; `slf4j-simple` writes to standard error.
BROKER = Bundle(
    "kafka",
    ("org.apache.kafka:kafka_2.13:4.1.0", "org.slf4j:slf4j-simple:1.7.36"),
    transitive=True,
)
# One by one: the registry's own list of what the connector needs names a jar that it does not have.
CONNECTOR = Bundle(
    "spark-kafka",
    (
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "org.apache.kafka:kafka-clients:3.9.2",
        "org.scala-lang.modules:scala-parallel-collections_2.13:1.2.0",
        "org.apache.commons:commons-pool2:2.13.1",
    ),
    transitive=False,
)
# What else it needs comes with Spark.
DELTA = Bundle(
    "delta",
    ("io.delta:delta-spark_4.2_2.13:4.4.0", "io.delta:delta-storage:4.4.0"),
    transitive=False,
)
# The diagrams of the documentation site; `scripts/docs` fetches it.
MERMAID = Bundle("mermaid", ("org.webjars.npm:mermaid:11.14.0",), transitive=False)
BUNDLES = (BROKER, CONNECTOR, DELTA)


def installed(bundle: Bundle, jars: Path = JARS) -> bool:
    """Whether every jar of the bundle is there. A folder gets its name only once it is complete."""
    return all((jars / bundle.name / name).is_file() for name in bundle.pins())


def folder(bundle: Bundle, jars: Path = JARS) -> Path:
    """Return the folder of an installed bundle; raise LocalError where it is not installed."""
    if not installed(bundle, jars):
        raise LocalError(f"jars of {bundle.name}", "not installed", "run scripts/setup")
    return jars / bundle.name


def spark_jars(*more: Bundle) -> str:
    """Return the value of Spark's setting `spark.jars` for reading and writing Kafka, and more."""
    bundles = (CONNECTOR, *more)
    return ",".join(str(folder(b) / name) for b in bundles for name in sorted(b.pins()))


def install(bundle: Bundle, jars: Path = JARS) -> None:
    """Fetch the bundle unless it is there; raise LocalError with the end of Ivy's log."""
    with locked(jars / f"{bundle.name}.lock"):
        if installed(bundle, jars):
            return
        for leftover in jars.glob(f"{bundle.name}.partial-*"):
            shutil.rmtree(leftover)
        cache = HOME / "cache" / "ivy"
        with TemporaryDirectory(dir=jars, prefix=f"{bundle.name}.partial-") as made:
            target = Path(made, "jars")
            _retrieve(bundle, cache, target)
            wrong = mismatches(bundle, target)
            if wrong:
                shutil.rmtree(cache, ignore_errors=True)
                raise LocalError(
                    f"jars of {bundle.name}",
                    f"not the pinned files: {', '.join(wrong)}",
                    "run it again; if it stays so, the registry or a proxy alters files",
                )
            shutil.rmtree(jars / bundle.name, ignore_errors=True)
            target.rename(jars / bundle.name)


def log(bundle: Bundle) -> Path:
    """Return the file that Ivy's words go to while it fetches the bundle."""
    return LOGS / f"ivy-{bundle.name}.log"


def mismatches(bundle: Bundle, place: Path) -> list[str]:
    """Return the names of the jars in `place` that are missing, not pinned or not as pinned."""
    found = {jar.name: sha256(jar.read_bytes()).hexdigest() for jar in place.iterdir()}
    pins = bundle.pins()
    return sorted(name for name in found | pins if found.get(name) != pins.get(name))


def _retrieve(bundle: Bundle, cache: Path, target: Path) -> None:
    """Let Ivy put the bundle's jars into `target`, with each trust store until one is accepted."""
    cache.mkdir(parents=True, exist_ok=True)
    output_log = log(bundle)
    output_log.parent.mkdir(parents=True, exist_ok=True)
    declaration = target.with_name("ivy.xml")
    declaration.write_text(bundle.ivy_file())
    for options in trust_stores():
        command = [
            str(jvm.java()),
            # Ivy would read the user's Maven and Ivy folders first, whose files may be incomplete.
            f"-Duser.home={target.parent}",
            *options,
            *proxy_options(),
            *("-jar", str(jvm.ivy()), "-cache", str(cache), "-ivy", str(declaration)),
            *("-confs", "default", "-types", "jar", "bundle"),
            *("-retrieve", f"{target}/[artifact]-[revision].[ext]"),
        ]
        with output_log.open("wb") as output:
            status = spawn(command, output=output).wait()
        if status == 0 and target.is_dir():
            return
        if "PKIX" not in output_log.read_text(errors="replace"):
            break
    raise LocalError(
        f"jars of {bundle.name}",
        f"Ivy could not fetch them; the end of {output_log}:\n{tail(output_log)}",
        "check the network (HTTPS_PROXY is honoured) and run it again: it goes on",
    )
