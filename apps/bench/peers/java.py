"""A peer on the JVM: its jars, and our program compiled against them; nothing else is needed.

The runtime has no Java compiler, so Eclipse's, which is a jar, does it.
"""

import shutil
import subprocess
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from sequitur.local import jars, jvm
from sequitur.local.home import HOME, LocalError

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


COMPILER = PeerBundle("ecj", ("org.eclipse.jdt:ecj:3.42.0",), transitive=False)


@dataclass(frozen=True, slots=True)
class JavaPeer:
    """title: for errors. source: of the program, whose class has the file's name. options: of the
    JVM. shared: sources that it has in common with others. folder: for jars and classes."""

    title: str
    bundle: PeerBundle
    source: Path
    options: tuple[str, ...] = ()
    shared: tuple[Path, ...] = ()
    folder: Path = FOLDER

    @property
    def jars(self) -> Path:
        """Where its jars are, a folder each bundle."""
        return self.folder / JARS.name

    @property
    def classes(self) -> Path:
        """Where the program's classes are, once compiled: another source is another folder."""
        text = b"".join(source.read_bytes() for source in (self.source, *self.shared))
        return self.folder / "classes" / sha256(text).hexdigest()[:12]

    def missing(self) -> str | None:
        """What is not installed."""
        if not jars.installed(self.bundle, self.jars):
            return "its jars are not installed"
        return None if self.classes.is_dir() else "its program is not compiled"

    def install(self) -> None:
        """Fetch the jars and compile the program. Raises LocalError."""
        for bundle in (self.bundle, COMPILER):
            try:
                jars.install(bundle, self.jars)
            except LocalError as error:
                reason = str(error).partition("\n  Remedy")[0]
                again = "check the network and run scripts/bench engine --install again"
                raise LocalError(self.title, reason, again) from error
        self._compile()

    def command(self) -> list[str]:
        """The command that runs the program. Call it when nothing is missing."""
        path = f"{self.classes}:{self.jars / self.bundle.name}/*"
        return [str(jvm.java()), *self.options, "-cp", path, self.source.stem]

    def _compile(self) -> None:
        target = self.classes
        if target.is_dir():
            return
        made = target.with_name(target.name + ".partial")
        shutil.rmtree(made, ignore_errors=True)
        library = ":".join(str(jar) for jar in sorted((self.jars / self.bundle.name).glob("*.jar")))
        (compiler,) = COMPILER.pins()
        done = subprocess.run(
            [
                *(str(jvm.java()), "-jar", str(self.jars / COMPILER.name / compiler)),
                *("-21", "-nowarn", "-encoding", "UTF-8", "-proc:none"),
                *("-cp", library, "-d", str(made), *map(str, (self.source, *self.shared))),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode or not (made / f"{self.source.stem}.class").is_file():
            raise LocalError(self.title, f"{done.stdout}{done.stderr}", "correct the program")
        made.rename(target)
