"""STAND-IN"""
from minispark_stream.checkpointing.checkpoint_file_manager import CheckpointFileManager
class HDFSMetadataLog:
    def __init__(self,path): self.fm=CheckpointFileManager(path)
    def add(self,b,m):
        try: self.fm.create_atomic(str(b),self.serialize(m)); return True
        except FileExistsError: return False
    def get(self,b): return self.deserialize(self.fm.open(str(b))) if self.fm.exists(str(b)) else None
    def list_batches(self): return sorted(int(n) for n,_,_ in self.fm.list("") if n.isdigit())
    def get_latest(self):
        l=self.list_batches(); return (l[-1],self.get(l[-1])) if l else None
    def purge(self,t):
        d=[b for b in self.list_batches() if b<t]
        for b in d: self.fm.delete(str(b))
        return d
