"""Where the queries that are killed read from: their input comes in stages, and goes back to what it was at a kill.

A folder loses the files that came later. From a topic nothing can be taken back: so there is a new one, which has what the other one
had, and whatever names the topic on the disk is told its new name.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from tests.conformance.crash_pictures import TOPIC, Disk
from tests.conformance.kafka_broker import Kafka

Stages = Sequence[Sequence[list[str]]]  # of each stage the files, of each file the lines


class Input(Protocol):
    """`address` says what to read, and `arrived` how many stages are there."""

    address: str
    arrived: int

    def arrive(self) -> None:
        """The next stage is there, all at once."""

    def put_back(self, arrived: int, disk: Disk) -> Disk:
        """Make the input what it was; the disk, as it is to be put back with it."""


class Folder:
    """A folder of files, each stage in a folder of its own."""

    def __init__(self, folder: Path, stages: Stages):
        self._folder, self._stages, self.arrived = folder, stages, 0
        self.address = f"{folder}/*"
        folder.mkdir()

    def arrive(self) -> None:
        """All files with their times: a source that saw one earlier would take the others for too old."""
        hidden = self._folder.with_name("hidden")
        hidden.mkdir()
        for i, lines in enumerate(self._stages[self.arrived]):
            (hidden / f"{i}.json").write_text("\n".join(lines))
            os.utime(hidden / f"{i}.json", (1_700_000_000 + 100 * self.arrived + i,) * 2)
        hidden.rename(self._folder / str(self.arrived))
        self.arrived += 1

    def put_back(self, arrived: int, disk: Disk) -> Disk:
        for number in range(arrived, self.arrived):
            shutil.rmtree(self._folder / str(number))
        self.arrived = min(self.arrived, arrived)
        while self.arrived < arrived:
            self.arrive()
        return disk


class Topic:
    """A topic of Kafka with two partitions. A stage is one record, so that no batch has a part of it."""

    def __init__(self, kafka: Kafka, stages: Stages):
        self._kafka, self._stages, self._number = kafka, stages, 0
        self._begin()

    def _begin(self) -> None:
        self._number, self.arrived = self._number + 1, 0
        self._topic = f"stages-{self._number:05}"
        self.address = f"{self._kafka.address} {self._topic}"
        self._kafka.create({self._topic: 2})

    def arrive(self) -> None:
        rows = [json.loads(line) for lines in self._stages[self.arrived] for line in lines]
        self._kafka.send(self._topic, self.arrived % 2, json.dumps(rows))
        self.arrived += 1

    def put_back(self, arrived: int, disk: Disk) -> Disk:
        self._begin()
        while self.arrived < arrived:
            self.arrive()
        return {name: (re.sub(TOPIC, self._topic.encode(), content), changed) for name, (content, changed) in disk.items()}
