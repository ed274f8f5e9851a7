import subprocess
from pathlib import Path

from sequitur.local import jvm


def test_the_wrapped_java_starts_in_spite_of_sparks_missing_module(tmp_path: Path) -> None:
    home = jvm.wrap(tmp_path / "jvm with space")
    command = [
        str(home / "bin" / "java"),
        "--add-modules=jdk.incubator.vector",
        "-Da=b c",
        "-version",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert 'version "21' in done.stderr


def test_the_wrapper_passes_all_other_arguments_on(tmp_path: Path) -> None:
    java = jvm.wrap(tmp_path, tmp_path / "no archive") / "bin" / "java"
    java.write_text(java.read_text().replace(str(jvm.java()), "printf") + "\n")
    command = [str(java), "[%s]", "a b", "--add-modules=jdk.incubator.vector", "", "*"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "[a b][][*]"


def test_wrapping_again_mends_what_is_broken_and_leaves_the_rest(tmp_path: Path) -> None:
    java = jvm.wrap(tmp_path) / "bin" / "java"
    before = java.stat().st_mtime_ns
    jvm.wrap(tmp_path)
    assert java.stat().st_mtime_ns == before
    java.write_text("half")
    (tmp_path / "lib").unlink()
    (tmp_path / "lib").symlink_to(tmp_path / "gone")
    jvm.wrap(tmp_path)
    assert "exec" in java.read_text()
    assert (tmp_path / "lib" / "modules").is_file()


def test_spark_gets_the_running_python_and_loopback() -> None:
    env = jvm.spark_env()
    assert Path(env["JAVA_HOME"], "bin", "java").is_file()
    assert Path(env["PYSPARK_PYTHON"]).is_file()
    assert env["SPARK_LOCAL_IP"] == "127.0.0.1"
