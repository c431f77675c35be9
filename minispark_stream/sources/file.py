"""STAND-IN"""
import os, json
from minispark_stream.sources.base import *
from pyspark.sql import DataFrame
def file_stream_relation(spark, fmt, path, schema, options):
    return StreamingRelation(fmt, schema, lambda s, m: FileStreamSource(s, fmt, path, schema, options, m))
class FileStreamSource(SupportsTriggerAvailableNow):
    def __init__(self, s, fmt, path, schema, options, meta):
        self.s,self.fmt,self.path,self.schema,self.options=s,fmt,path,schema,options; self.description=f"FileStreamSource[file:{path}]"; self.n=int(options.get("maxfilespertrigger",10**9)); self.log=[]
    def prepare_for_trigger_available_now(self): pass
    def latest_offset(self, start, limit):
        fs=sorted((os.stat(os.path.join(self.path,f)).st_mtime,os.path.join(self.path,f)) for f in os.listdir(self.path))
        seen={f for l in self.log for f in l}
        new=[f for _,f in fs if f not in seen][:self.n]
        if new: self.log.append(new)
        return '{"logOffset":%d}'%(len(self.log)-1) if self.log else None
    def get_batch(self,start,end):
        a=json.loads(start)["logOffset"]+1 if start else 0
        return self.s.read.format(self.fmt).schema(self.schema).options(**self.options).load([f for l in self.log[a:json.loads(end)["logOffset"]+1] for f in l])
