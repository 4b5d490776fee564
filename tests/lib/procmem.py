"""What stands in the memory of another process."""


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
