"""What stands in the memory of another process, and how much of it there is and may be."""
import re


def is_sanitized(program):
    """Then it has terabytes of its own."""
    with open(program, "rb") as f:
        return re.search(rb"__[at]san_init", f.read()) is not None


def status_bytes(pid, *names):
    """The sum of these lines of the status, in bytes."""
    with open(f"/proc/{pid}/status") as f:
        fields = dict(line.split(":", 1) for line in f)
    return sum(int(fields[n].split()[0]) << 10 for n in names)


def peak_rss(pid):
    return status_bytes(pid, "VmHWM")


def data_limit(pid):
    """Bytes of RLIMIT_DATA; None: there is none."""
    with open(f"/proc/{pid}/limits") as f:
        soft = re.search(r"^Max data size +(\S+)", f.read(), re.M)[1]
    return None if soft == "unlimited" else int(soft)


def has_data_limit(pid, least, most):
    """Has it a limit, by so many bytes above what it has now?"""
    limit, used = data_limit(pid), status_bytes(pid, "VmData", "VmStk")
    return limit is not None and least <= limit - used <= most


def memory_has(pid, data):
    """Are these bytes anywhere in what that process may write?"""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as mem:
        for line in maps:
            span, mode = line.split()[:2]
            if not mode.startswith("rw") or "[v" in line:
                continue
            begin, end = (int(x, 16) for x in span.split("-"))
            if end - begin > 1 << 32:  # what a sanitizer notes about all the others
                continue
            mem.seek(begin)
            try:
                if data in mem.read(end - begin):
                    return True
            except OSError:
                pass
    return False
