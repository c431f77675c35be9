"""STAND-IN"""
import json
from dataclasses import dataclass
from minispark_stream.checkpointing.metadata_log import HDFSMetadataLog
@dataclass(frozen=True)
class CommitMetadata: next_batch_watermark_ms:int=0
class CommitLog(HDFSMetadataLog):
    def serialize(self,m): return ('v1\n{"nextBatchWatermarkMs":%d}'%m.next_batch_watermark_ms).encode()
    def deserialize(self,d): return CommitMetadata(json.loads(d.decode().split("\n")[1])["nextBatchWatermarkMs"])
