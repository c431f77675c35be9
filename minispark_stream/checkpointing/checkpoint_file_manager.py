"""STAND-IN"""
import os, uuid
class CheckpointFileManager:
    def __init__(self, path):
        p=path
        for pre in ("file://","file:"):
            if p.startswith(pre): p=p[len(pre):]
        self.dir=os.path.abspath(p); self.root="file:"+self.dir
    def create_atomic(self, rel, data, overwrite=False):
        f=os.path.join(self.dir,rel); os.makedirs(os.path.dirname(f),exist_ok=True)
        t=os.path.join(os.path.dirname(f),f".{os.path.basename(f)}.{uuid.uuid4()}.tmp")
        with open(t,"wb") as o: o.write(data)
        if overwrite: os.replace(t,f)
        else:
            try: os.link(t,f)
            finally: os.unlink(t)
    def open(self, rel): return open(os.path.join(self.dir,rel),"rb").read()
    def list(self, rel=""):
        d=os.path.join(self.dir,rel)
        return [(e.name,e.stat().st_size,e.stat().st_mtime_ns//10**6) for e in os.scandir(d)] if os.path.isdir(d) else []
    def exists(self, rel): return os.path.exists(os.path.join(self.dir,rel))
    def delete(self, rel):
        try: os.unlink(os.path.join(self.dir,rel))
        except FileNotFoundError: pass
    def mkdirs(self, rel): os.makedirs(os.path.join(self.dir,rel),exist_ok=True)
