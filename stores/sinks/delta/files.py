"""A folder on any file system that Spark knows, as far as a Delta Lake read store needs it."""

import os
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession


class HadoopFiles:
    """The files below `root`, by their names from there."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._gateway: Any = spark.sparkContext._gateway
        self._conf: Any = spark._jsc.hadoopConfiguration()
        place = self._jvm.org.apache.hadoop.fs.Path(root)
        self._system = place.getFileSystem(self._conf)
        self.root: str = self._system.makeQualified(place).toString()

    def path(self, name: str) -> str:
        """The full path of a file or folder."""
        return f"{self.root}/{name}"

    def names(self, folder: str = "") -> list[str]:
        """What is in a folder; nothing where there is none."""
        path = self._path(folder)
        if not self._system.exists(path):
            return []
        return sorted(str(status.getPath().getName()) for status in self._system.listStatus(path))

    def read(self, name: str) -> bytes:
        stream = self._system.open(self._path(name))
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

    def create(self, name: str, content: bytes) -> None:
        """Make a file that is there with all its content or not at all, and not twice.

        Raises FileExistsError if it is there.
        """
        folder, _, last = name.rpartition("/")
        # Of one's own, since somebody else may be making the same file.
        draft = f"{folder}/.{last}.{uuid4().hex}.draft"
        self._system.mkdirs(self._path(folder))
        stream = self._system.create(self._path(draft), True)
        try:
            stream.write(content)
        finally:
            stream.close()
        try:
            self._publish(draft, name)
        finally:
            self.delete(draft)

    def _publish(self, draft: str, name: str) -> None:
        if self._system.getScheme() == "file":
            # A rename there would look whether the file is there, and then replace it.
            try:
                os.link(self._local(draft), self._local(name))
                return
            except FileExistsError:
                raise
            except OSError:
                pass  # a file system without links
        hadoop = self._jvm.org.apache.hadoop.fs
        no_options = self._gateway.new_array(getattr(hadoop, "Options$Rename"), 0)
        made = self._path(draft)
        context = hadoop.FileContext.getFileContext(made.toUri(), self._conf)
        try:
            context.rename(made, self._path(name), no_options)
        except Py4JJavaError as error:
            if "FileAlreadyExists" in str(error.java_exception):
                raise FileExistsError(name) from error
            raise

    def _local(self, name: str) -> str:
        return str(self._path(name).toUri().getPath())

    def delete(self, name: str) -> None:
        """Delete a file, or a folder with all that is in it, if it is there."""
        self._system.delete(self._path(name), True)

    def delete_drafts(self, folder: str) -> None:
        """Delete a folder that has nothing in it but folders and files that were not finished.

        Nothing is done where there is none. Raises py4j's error if there is anything else in it.
        """
        for name in self.names(folder):
            inner = f"{folder}/{name}"
            if name.startswith("."):
                self.delete(inner)
            elif name.startswith("_"):
                self.delete_drafts(inner)
        self._system.delete(self._path(folder), False)

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.path(name) if name else self.root)
