"""Functions that the tests of S3 share: a home directory with keys, and the start of a worker."""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import *  # noqa: E402
from s3server import ACCESS, SECRET_KEY  # noqa: E402

HOME = os.environ.get("STAGE_TEST_HOME", "")


def credentials(text=None, mode=0o600, token=None, file="credentials"):
    path = os.path.join(HOME, ".aws", file)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.lexists(path):
        os.unlink(path)
    if text is None:
        text = (f"[other]\naws_access_key_id=X\naws_secret_access_key=Y\n\n[default]\n"
                f"aws_access_key_id = {ACCESS}\naws_secret_access_key={SECRET_KEY}\n")
        text += f"aws_session_token = {token}\n" if token else ""
    if text:
        with open(path, "w") as f:
            f.write(text)
        os.chmod(path, mode)


def fetch(item, server, options="", **task):
    return Worker(f"x={item}:shm:{options}" if options else f"x={item}:shm", web=server.web(),
                  **{"tiers": "shm", "stall": 600_000, **task})


def fails(item, server, pattern, hint="", **more):
    with fetch(item, server, **more) as w:
        text = w.error()["text"]
        said, _, do = text.rpartition("; ")
        assert re.search(pattern, said), f"{pattern!r} not in: {text}"
        assert hint in do, f"{hint!r} not in: {text}"
        assert SECRET_KEY not in text and SECRET_KEY not in w.stderr()
        if os.environ.get("V"):
            print("#", text)


def read(*path):
    with open(os.path.join(*path), "rb") as f:
        return f.read()


def main_in_namespace():
    """A home of the test's own for root: an /etc/passwd of its own in a mount namespace."""
    home = scratch()
    passwd = os.path.join(home, "passwd")
    with open("/etc/passwd") as f:
        lines = [l.split(":") for l in f.read().splitlines()]
    for l in lines:
        if int(l[2]) == os.geteuid():
            l[5] = home
    with open(passwd, "w") as f:
        f.write("\n".join(":".join(l) for l in lines) + "\n")
    script = 'mount --bind "$0" /etc/passwd && exec "$@"'
    r = subprocess.run(["unshare", "-m", "sh", "-c", script, passwd, sys.executable, *sys.argv],
                       env=dict(os.environ, STAGE_TEST_HOME=home))
    remove(home)
    sys.exit(r.returncode)


def run_tests(namespace):
    if HOME:
        main(namespace)
    elif os.geteuid() != 0:
        print("1..0 # SKIP needs root for a home of its own")
    else:
        main_in_namespace()
