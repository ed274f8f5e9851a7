"""What the set-up wrote of classes fits the JVMs that are started, and harms no other."""

import subprocess
from pathlib import Path

import pytest

from sequitur.local import broker_config, class_archives, jvm

SPARK = jvm.ivy().parent.resolve()
# As Spark's two launchers have it.
CLASS_PATHS = [f"{SPARK}/*", f"{SPARK.parent}/conf:{next(SPARK.glob('slf4j-api-*.jar'))}:{SPARK}/*"]


@pytest.mark.parametrize("classes", CLASS_PATHS)
def test_spark_maps_its_classes(classes: str) -> None:
    # With this option a JVM that cannot map them does not start.
    command = [str(jvm.wrap() / "bin" / "java"), "-Xshare:on", "-cp", classes, "-version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout


def test_a_broker_maps_its_classes() -> None:
    java, *options = broker_config._java("-version")
    done = subprocess.run([java, "-Xshare:on", *options], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b""), done.stdout


def test_settings_that_somebody_made_stay_on_spark_s_class_path(tmp_path: Path) -> None:
    java = jvm.wrap(tmp_path, tmp_path / "no archive") / "bin" / "java"
    settings = str(SPARK.parent / "conf")
    text = java.read_text().replace(str(jvm.java()), "echo")
    for there in (False, True):
        java.write_text(text.replace(f"-e {settings}", f"-e {tmp_path if there else '/no'}"))
        done = subprocess.run([str(java), CLASS_PATHS[1]], capture_output=True, text=True)
        assert done.stdout == f"{CLASS_PATHS[there]}\n"


@pytest.mark.parametrize("content", ["", "half", None])
def test_one_that_does_not_fit_is_passed_over_in_silence(
    content: str | None, tmp_path: Path
) -> None:
    archive = tmp_path / "an archive.jsa"
    if content is None:  # of other jars
        archive.write_bytes(class_archives.BROKER.read_bytes())
    else:
        archive.write_text(content)
    java = jvm.wrap(tmp_path / "jvm", archive) / "bin" / "java"
    command = [str(java), "-cp", CLASS_PATHS[1], "org.apache.spark.launcher.Main"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == ""
    assert "Not enough arguments" in done.stderr
