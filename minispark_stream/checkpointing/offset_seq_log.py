"""STAND-IN"""
import json
from dataclasses import dataclass, field
from minispark_stream.checkpointing.metadata_log import HDFSMetadataLog
KEYS="""spark.sql.streaming.stateStore.providerClass
spark.sql.dropDuplicates.deterministicKeyOrder.enabled
spark.sql.streaming.stateStore.rocksdb.mergeOperatorVersion
spark.sql.streaming.stateStore.rocksdb.formatVersion
spark.sql.streaming.queryEvolution.enableSourceEvolution
spark.sql.streaming.stateStore.encodingFormat
spark.sql.streaming.statefulOperator.useStrictDistribution
spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion
spark.sql.streaming.multipleWatermarkPolicy
spark.sql.streaming.stateStore.rowChecksum.enabled
spark.sql.streaming.statefulOperator.alwaysNullableOutput.enabled
spark.sql.streaming.aggregation.stateFormatVersion
spark.sql.function.protobufExtensions.enabled
spark.sql.shuffle.partitions
spark.sql.streaming.join.stateFormatVersion
spark.sql.streaming.stateStore.compression.codec
spark.sql.optimizer.pruneFiltersCanPruneStreamingSubplan""".split()
@dataclass(frozen=True)
class OffsetSeqMetadata:
    batch_watermark_ms:int=0
    batch_timestamp_ms:int=0
    conf:dict=field(default_factory=dict)
    @staticmethod
    def from_session(get): return OffsetSeqMetadata(0,0,{k:get(k) for k in KEYS})
    def apply_to_session(self,set_,get):
        for k,v in self.conf.items(): set_(k,v)
@dataclass(frozen=True)
class OffsetSeq:
    offsets:tuple
    metadata:object
class OffsetSeqLog(HDFSMetadataLog):
    def serialize(self,m): return ("v1\n"+json.dumps({"batchWatermarkMs":m.metadata.batch_watermark_ms,"batchTimestampMs":m.metadata.batch_timestamp_ms,"conf":m.metadata.conf},separators=(",",":"))+"\n"+"\n".join("-" if o is None else o for o in m.offsets)).encode()
    def deserialize(self,d):
        l=d.decode().split("\n"); j=json.loads(l[1]); return OffsetSeq(tuple(None if x=="-" else x for x in l[2:]),OffsetSeqMetadata(j["batchWatermarkMs"],j["batchTimestampMs"],j["conf"]))
