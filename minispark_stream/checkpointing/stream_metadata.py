"""STAND-IN"""
import json, uuid
from minispark_stream.checkpointing.checkpoint_file_manager import CheckpointFileManager
def read_or_create(path, conf_get):
    fm=CheckpointFileManager(path)
    if not fm.exists("metadata"): fm.create_atomic("metadata",('{"id":"%s"}'%uuid.uuid4()).encode())
    return json.loads(fm.open("metadata"))["id"]
