"""The wheel in an empty environment outside of the clone: a new project runs from there."""

import os
import shutil
import sqlite3
import subprocess
import sys
import time
import tomllib
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from importlib.metadata import Distribution, distribution
from importlib.util import cache_from_source
from pathlib import Path

import pytest
from confluent_kafka import Producer
from packaging.requirements import Requirement

from sequitur.local.home import JARS, ROOT
from sequitur.local.ports import HOST, free_port
from soak.ended import ended

pytestmark = pytest.mark.integration

PATIENCE = 180.0
NOT_PASSED_ON = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "JAVA_HOME")


def declared(*extras: str) -> list[str]:
    """What Sequitur says that it needs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    of_extras = (text for extra in extras for text in project["optional-dependencies"][extra])
    return [*project["dependencies"], *of_extras]


def closure(texts: Iterable[str]) -> list[Distribution]:
    """Packages, and all that they need in turn."""
    waiting, found = [Requirement(text) for text in texts], dict[str, Distribution]()
    seen = set[tuple[str, str]]()
    while waiting:
        one = waiting.pop()
        package = found.setdefault(one.name.lower(), distribution(one.name))
        for extra in ("", *one.extras):
            if (one.name.lower(), extra) not in seen:
                seen.add((one.name.lower(), extra))
                needs = map(Requirement, package.requires or ())
                waiting += [
                    need
                    for need in needs
                    if need.marker is None or need.marker.evaluate({"extra": extra})
                ]
    return list(found.values())


def place(distributions: Iterable[Distribution], environment: Path) -> None:
    """Put packages into an environment as pip would, out of the one that runs this."""
    (site,) = environment.glob("lib/python3*/site-packages")
    for package in distributions:
        for file in package.files or ():
            source, target = Path(str(file.locate())), site / file
            if "__pycache__" in file.parts or not source.is_file():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            if ".." in file.parts:  # a command, which names its Python
                content = source.read_bytes()
                own = str(environment / "bin" / "python").encode()
                target.write_bytes(content.replace(sys.executable.encode(), own))
                shutil.copymode(source, target)
            elif not target.exists():
                _link(source, target)
                compiled = Path(cache_from_source(source))
                if source.suffix == ".py" and compiled.is_file():
                    _link(compiled, Path(cache_from_source(target)))


def _link(source: Path, target: Path) -> None:
    target.parent.mkdir(exist_ok=True)
    try:
        target.hardlink_to(source)
    except OSError:  # on another file system
        shutil.copy2(source, target)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, what it declares with the extra `spark`, and pytest."""
    folder = tmp_path_factory.mktemp("installed") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    place(closure([*declared("spark"), "pytest"]), folder)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python")]
    install = ["install", "--quiet", "--no-deps", "--no-index", "--no-compile", str(wheel)]
    subprocess.run([*pip, *install], check=True)
    subprocess.run([*pip, "check"], check=True)
    return folder


@pytest.fixture(scope="module")
def run(
    environment: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., subprocess.Popen[str]]:
    """Start a command as a user types it, who has the environment activated."""
    home = tmp_path_factory.mktemp("home")
    (home / "jars").symlink_to(JARS)  # which would be fetched else
    variables = {key: value for key, value in os.environ.items() if key not in NOT_PASSED_ON}
    variables |= {
        "PATH": f"{environment / 'bin'}:{os.environ['PATH']}",
        "SEQUITUR_HOME": str(home),
    }

    def start(*command: str, cwd: Path, **more: str) -> subprocess.Popen[str]:
        with (cwd / f"{command[0]}.log").open("a") as log:
            return subprocess.Popen(
                command, cwd=cwd, env=variables | more, stdout=log, stderr=log, text=True
            )

    return start


@pytest.fixture(scope="module")
def project(
    run: Callable[..., subprocess.Popen[str]], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    folder = tmp_path_factory.mktemp("work")
    assert run("sequitur", "new", "shop", cwd=folder).wait(PATIENCE) == 0
    return folder / "shop"


@pytest.fixture
def broker(run: Callable[..., subprocess.Popen[str]], project: Path) -> Iterator[str]:
    """A broker in the background, as `sequitur broker start` leaves it."""
    port = free_port()
    data = ["--data", str(project / "broker")]
    words = ["sequitur", "broker", "start", "--port", str(port), *data]
    try:
        assert run(*words, cwd=project).wait(PATIENCE) == 0
        assert run("sequitur", "broker", "status", *data, cwd=project).wait(PATIENCE) == 0
        yield f"{HOST}:{port}"
    finally:
        assert run("sequitur", "broker", "stop", *data, cwd=project).wait(PATIENCE) == 0
        assert run("sequitur", "broker", "status", *data, cwd=project).wait(PATIENCE) == 1


def test_the_wheel_has_what_users_run_and_nothing_called_apps(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {
        *("topology", "stores", "sequitur"),
    }
    assert {f"{top}/py.typed" for top in ("topology", "stores", "sequitur")} <= set(names)


def test_an_installed_package_imports_nothing_from_the_clone(environment: Path) -> None:
    code = (
        "import sequitur, stores, sys, topology;"
        "print(sys.path, sequitur.__path__, stores.__path__, topology.__path__)"
    )
    python = str(environment / "bin" / "python")
    done = subprocess.run([python, "-Ic", code], capture_output=True, text=True, check=True)
    assert str(ROOT) not in done.stdout
    (site,) = environment.glob("lib/python3*/site-packages")
    assert not (site / "apps").exists()


def test_each_command_has_what_it_needs_or_names_the_extra_that_brings_it(
    environment: Path,
) -> None:
    code = (
        "from sequitur.cli.main import COMMANDS, main;"
        "print({main([name, '--help']) for name in COMMANDS if name != 'demo'});"
        "main(['demo'])"
    )
    python = str(environment / "bin" / "python")
    done = subprocess.run([python, "-Ic", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "{0}"
    assert done.stderr.splitlines() == [
        "sequitur: error: demo needs confluent_kafka, which is not installed; install it with: "
        f"pip install 'sequitur[demo]=={distribution('sequitur').version}'"
    ]


def test_a_new_project_passes_its_test(
    run: Callable[..., subprocess.Popen[str]], project: Path
) -> None:
    done = run("python", "-m", "pytest", "-q", cwd=project).wait(PATIENCE)
    assert done == 0, (project / "python.log").read_text()


def test_a_new_project_runs_from_a_message_to_a_row(
    run: Callable[..., subprocess.Popen[str]], project: Path, broker: str
) -> None:
    place = {"SEQUITUR_BROKER": broker}
    faust = ["faust", "-A", "shop"]
    topics = run(*faust, "topics", "--create", cwd=project, **place).wait(PATIENCE)
    assert topics == 0, (project / "faust.log").read_text()
    producer = Producer({"bootstrap.servers": broker})
    for version, kind in ((2, "Paid"), (1, "Placed")):
        order = f'{{"order": {{"id": "A-17"}}, "version": {version}, "type": "{kind}"}}'
        producer.produce("orders", order)
    producer.flush(120)
    worker = run(*faust, "worker", "-l", "info", "--without-web", cwd=project, **place)
    store = ["--read-store", "sqlite:///shop.sqlite", "--checkpoint", "checkpoint"]
    words = ["sequitur", "materialize", "--topology", "shop:shop", *store]
    materializer = run(*words, cwd=project, **place)
    try:
        until = time.monotonic() + PATIENCE
        while rows(project / "shop.sqlite") != [("A-17", "Paid")]:
            assert worker.poll() is None, (project / "faust.log").read_text()
            assert materializer.poll() is None, (project / "sequitur.log").read_text()
            assert time.monotonic() < until, (project / "sequitur.log").read_text()
            time.sleep(0.2)
    finally:
        for process in (materializer, worker):
            process.terminate()
        logs = project / "sequitur.log", project / "faust.log"
        statuses = [ended(process, PATIENCE, *logs) for process in (materializer, worker)]
    assert statuses == [0, 0], logs[1].read_text()


def rows(file: Path) -> list[tuple[str, str]]:
    """The orders in the read store, as far as it is there."""
    if not file.exists():
        return []
    with closing(sqlite3.connect(file)) as connection:
        try:
            return connection.execute('SELECT "order", status FROM order_board').fetchall()
        except sqlite3.OperationalError:
            return []
