"""The files of a query's checkpoint, wherever Hadoop can reach them.

metadata                 the query's id              commits/<batch>          what is done
offsets/<batch>          what each batch reads       sources/<source>/...     what the sources note
state/<operator>/<partition>/...                     rows, by version = batch + 1
state/<operator>/_metadata, _stateSchema             variables and their types
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from penstock.core.errors import PenstockError
from penstock.spark.session.java import Java


class Checkpoint:
    """The checkpoint's files, wherever Hadoop can reach them."""

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        self.jvm: Java = spark._jvm
        self.conf = spark._jsparkSession.sessionState().newHadoopConf()
        path = self._at(checkpoint)
        self.system = path.getFileSystem(self.conf)
        self.root = self.system.makeQualified(path).toString()

    def last_committed(self) -> int:
        """The number of the last batch that is done."""
        batches = [int(name) for name in self.names("commits") if name.isdigit()]
        if not batches:
            raise PenstockError(f"checkpoint must be the folder of a query with a committed batch, got {self.root}")
        return max(batches)

    def exists(self, name: str) -> bool:
        """Whether there is such a file or folder."""
        return self.system.exists(self._at(name))

    def names(self, folder: str) -> list[str]:
        """What is in a folder of the checkpoint."""
        path = self._at(f"{self.root}/{folder}")
        return [one.getPath().getName() for one in self.system.listStatus(path)] if self.system.exists(path) else []

    def read(self, name: str) -> str:
        """The text of a file of the checkpoint."""
        return self.text(f"{self.root}/{name}")

    def text(self, name: str) -> str:
        """The text of a file, wherever it is."""
        stream = self.system.open(self._at(name))
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """Write a text file, over the one that is there."""
        stream = self.system.create(self._at(name), True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def stage(self, staged: str, operator: int) -> None:
        """Copy the checkpoint without the rows of one operator into a folder that has nothing of it yet."""
        self.system.mkdirs(self._at(f"{staged}/state/{operator}"))
        kept = [name for name in self.names("") if name != "state"]
        kept += [f"state/{name}" for name in self.names("state") if name != str(operator)]
        kept += [f"state/{operator}/{name}" for name in self.names(f"state/{operator}") if not name.isdigit()]
        for name in kept:
            self.copy(f"{self.root}/{name}", f"{staged}/{name}")

    def copy(self, old: str, new: str) -> None:
        """Copy a file or folder to where there is none."""
        if not self.jvm.org.apache.hadoop.fs.FileUtil.copy(self.system, self._at(old), self.system, self._at(new), False, self.conf):
            raise PenstockError(f"checkpoint must be readable, got {self.root}: {old} cannot be copied to {new}")

    def rename(self, old: str, new: str) -> None:
        """Give a file or folder a name that is not taken."""
        if not self.system.rename(self._at(old), self._at(new)):
            raise PenstockError(f"checkpoint must allow that files beside it are renamed, got {self.root}: {old} cannot become {new}")

    def delete(self, name: str) -> None:
        """Delete a file or folder, if it is there."""
        self.system.delete(self._at(name), True)

    def _at(self, name: str) -> Java:
        return self.jvm.org.apache.hadoop.fs.Path(name)
