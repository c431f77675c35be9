"""The log of an output folder, as text and as a picture."""

from __future__ import annotations

import json
import shutil

from minispark_stream.lens.view.table_log import draw_log, log_to_text, read_log
from tests.unit.golden_trace import GOLDEN


def test_appends_to_a_delta_table():
    assert log_to_text(GOLDEN / "delta" / "append_partitioned").splitlines() == [
        "commit 0   batch 0   + A  + B", "commit 1   batch 1   + C  + D", "commit 2   batch 2   + E", "visible:      A B C D E",
    ]


def test_complete_removes_what_was_there(tmp_path):
    shutil.copytree(GOLDEN / "delta" / "complete", tmp_path / "t")
    (tmp_path / "t" / "part-00000-of-an-attempt.parquet").touch()
    assert log_to_text(tmp_path / "t").splitlines() == [
        "commit 0   batch 0   + A", "commit 1   batch 1   + B  - A", "commit 2   batch 2   + C  - B",
        "visible:      C", "removed:      A B", "in no commit: D",
    ]
    picture = draw_log(tmp_path / "t").source
    assert picture.count("-> \"part") + picture.count("-> part") == 5 and picture.count("dashed") == 5


def test_manifests(tmp_path):
    folder = tmp_path / "out put"
    (folder / "_spark_metadata").mkdir(parents=True)
    for batch, names in enumerate((["k=a%20b/part-00000-x.json"], [])):
        lines = [json.dumps({"path": f"file://{str(folder).replace(' ', '%20')}/{name}", "action": "add"}) for name in names]
        (folder / "_spark_metadata" / str(batch)).write_text("\n".join(["v1", *lines]))
    assert [(c.name, c.batch_id, c.added) for c in read_log(folder)] == [("0", 0, ("k=a b/part-00000-x.json",)), ("1", 1, ())]
    assert log_to_text(folder).splitlines() == ["commit 0   batch 0   + A", "commit 1   batch 1", "visible:      A"]


def test_a_folder_without_a_log(tmp_path):
    (tmp_path / "part-00000-x.json").touch()
    assert log_to_text(tmp_path) == "in no commit: A"
