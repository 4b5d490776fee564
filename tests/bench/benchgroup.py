"""The memory groups that Slurm makes for a job, which a keeper looks for.

What is staged is charged to the job's group, what a peer writes to one beside it, so that both pay
for it. Groups are the whole machine's: they bear the number of the process outside of our
namespaces, and those of one that was killed go when the next one begins.
"""
import atexit
import glob
import os
import time

V1 = "/sys/fs/cgroup/memory"
V2 = "/sys/fs/cgroup"


class Groups:
    """top: made by the first Groups(tag); job(uid, id) makes the group of a job."""

    def __init__(self, tag):
        self.top = None
        if os.path.exists(V1 + "/memory.limit_in_bytes"):
            self.top = f"{V1}/slurm_bench{tag}"
            self.uids = True
            os.makedirs(self.top + "/peers", exist_ok=True)
        elif "memory" in read(V2 + "/system.slice/cgroup.subtree_control").split():
            self.top = f"{V2}/system.slice/bench{tag}_slurmstepd.scope"
            self.uids = False
            os.makedirs(self.top, exist_ok=True)
            write(self.top + "/cgroup.subtree_control", "+memory")
            os.makedirs(self.top + "/peers", exist_ok=True)
        if self.top:
            write(self.top + "/peers/cgroup.procs", "0")
            atexit.register(self.end)

    def job(self, uid, job_id):
        if not self.top:
            return None
        path = f"{self.top}/uid_{uid}/job_{job_id}" if self.uids else f"{self.top}/job_{job_id}"
        os.makedirs(path)
        # As Slurm does it: until there is a limit or a task, a worker waits for one.
        write(path + ("/memory.limit_in_bytes" if self.uids else "/memory.max"), str(all_memory()))
        return path

    def end(self):
        write(os.path.dirname(self.top) + "/cgroup.procs", "0")
        remove(self.top)


def all_memory():
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def remove(top, seconds=2):
    """Groups are removed from below, as soon as the last process has left them."""
    for path, _, _ in os.walk(top, topdown=False):
        for _ in range(int(seconds * 100)):
            try:
                os.rmdir(path)
                break
            except FileNotFoundError:
                break
            except OSError:
                time.sleep(0.01)


def remove_leftovers():
    for pattern in V1 + "/slurm_bench*", V2 + "/system.slice/bench*_slurmstepd.scope":
        for top in glob.glob(pattern):
            tag = "".join(c for c in os.path.basename(top) if c.isdigit())
            if not os.path.exists("/proc/" + tag):
                remove(top, 0.1)


def read(path):
    try:
        with open(path) as f:
            return f.read()
    except OSError:
        return ""


def write(path, text):
    with open(path, "w") as f:
        f.write(text)
