"""Describes the machine on which the benchmarks ran: {"machine": {...}, "versions": {...}}."""
import gzip
import os
import platform
import re
import subprocess

GIT = ["git", "-C", os.path.dirname(os.path.abspath(__file__)), "describe", "--always", "--dirty"]
COMMANDS = {
    "GNU tar": ["tar", "--version"], "bsdtar": ["bsdtar", "--version"],
    "coreutils": ["cp", "--version"], "gzip": ["gzip", "--version"], "pigz": ["pigz", "--version"],
    "zstd": ["zstd", "--version"], "lz4": ["lz4", "--version"], "xz": ["xz", "--version"],
    "squashfs-tools": ["unsquashfs", "-version"], "rsync": ["rsync", "--version"],
    "rclone": ["rclone", "version"], "Slurm": ["slurmd", "-V"],
    "squashfuse": ["dpkg-query", "-W", "-f", "${Version}", "squashfuse"],
    "Python": ["/usr/bin/python3", "--version"],
}
SQUASHFS = {
    "DECOMP_SINGLE": "one decompressor for each mount", "DECOMP_MULTI": "several decompressors for each mount",
    "DECOMP_MULTI_PERCPU": "one decompressor for each core", "FILE_DIRECT": "no cache of blocks",
    "FILE_CACHE": "a cache of blocks",
}


def first_line(argv):
    try:
        r = subprocess.run(argv, capture_output=True, text=True, timeout=20)
    except OSError:
        return ""
    return ((r.stdout or r.stderr).splitlines() or [""])[0]


def version(argv):
    """The number in the first line that it says"""
    line = first_line(argv)
    m = re.search(r"v?(\d+(\.\d+)+[^\s,;:)]*)", line)
    return m.group(1) if m else ""


def read(path):
    try:
        with open(path) as f:
            return f.read()
    except OSError:
        return ""


def kernel_config():
    try:
        with gzip.open("/proc/config.gz", "rt") as f:
            return f.read()
    except OSError:
        return read("/boot/config-" + platform.release())


def squashfs():
    config = kernel_config()
    if not re.search(r"^CONFIG_SQUASHFS=[ym]", config, re.M):
        return "not in the kernel" if config else "unknown"
    words = [text for key, text in SQUASHFS.items()
             if re.search(rf"^CONFIG_SQUASHFS_(COMPILE_)?{key}=y", config, re.M)]
    if m := re.search(r"^CONFIG_SQUASHFS_FRAGMENT_CACHE_SIZE=(\d+)", config, re.M):
        words.append(f"{m.group(1)} cached fragments")
    return ", ".join(dict.fromkeys(words))


def describe():
    cpu = re.search(r"^model name\s*: (.*)", read("/proc/cpuinfo"), re.M)
    memory = re.search(r"^MemTotal:\s*(\d+)", read("/proc/meminfo"), re.M)
    system = re.search(r'^PRETTY_NAME="(.*)"', read("/etc/os-release"), re.M)
    huge = re.search(r"\[(.*)\]", read("/sys/kernel/mm/transparent_hugepage/shmem_enabled"))
    # After the first program, the tree is not clean any more: its results are in it
    versions = {"stage-data": os.environ.get("STAGE_BENCH_VERSION") or first_line(GIT)}
    versions |= {name: version(argv) for name, argv in COMMANDS.items()}
    return {
        "machine": {
            "processor": cpu.group(1) if cpu else platform.machine(),
            "cores": os.cpu_count(),
            "memory": f"{int(memory.group(1)) / (1 << 20):.0f} GiB" if memory else "",
            "kernel": platform.release(),
            "system": system.group(1) if system else "",
            "virtual": "hypervisor" in read("/proc/cpuinfo"),
            "huge pages of tmpfs": huge.group(1) if huge else "none",
            "squashfs": squashfs(),
        },
        "versions": {name: v for name, v in versions.items() if v},
    }


def to_text(all_):
    m = all_["machine"]
    kind = "a virtual machine, " if m["virtual"] else ""
    return (f"Machine: {kind}{m['processor']}, {m['cores']} cores, {m['memory']}, Linux {m['kernel']}, "
            f"{m['system']}; huge pages of /dev/shm: {m['huge pages of tmpfs']}; the kernel's squashfs: "
            f"{m['squashfs']}.\n\nVersions: " +
            ", ".join(f"{name} {v}" for name, v in all_["versions"].items()) + ".")
