"""A headless Chromium, told by its debugging pipe what to show: for tests of what a reader sees.

    with Chromium() as c:
        c.show("file:///x.html", width=390, dark=True)
        c.evaluate("document.documentElement.scrollWidth")
"""
import json
import os
import shutil
import signal
import subprocess
import tempfile

PROGRAM = shutil.which("chromium")


class Chromium:
    def __enter__(self):
        self.profile = tempfile.TemporaryDirectory(prefix="chromium-")
        to_read, self.out = os.pipe()
        self.inp, to_write = os.pipe()

        def place():  # chromium reads from 3 and writes to 4, which may be among the four
            high = [os.dup2(fd, 100 + fd) for fd in (to_read, to_write)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self.process = subprocess.Popen(
            [PROGRAM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={self.profile.name}",
             "--remote-debugging-pipe", "about:blank"], close_fds=False, preexec_fn=place, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.rest, self.id, self.session, self.events = b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")
        return self

    def __exit__(self, kind, value, traceback):
        os.close(self.out)
        os.close(self.inp)
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.profile.cleanup()

    def receive(self):
        while b"\0" not in self.rest:
            data = os.read(self.inp, 1 << 20)
            if not data:
                raise AssertionError("chromium has ended")
            self.rest += data
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **params):
        self.id += 1
        session = {"sessionId": self.session} if self.session else {}
        os.write(self.out, json.dumps({"id": self.id, "method": method, "params": params, **session}).encode() + b"\0")
        while True:
            message = self.receive()
            if message.get("id") == self.id:
                assert "error" not in message, message
                return message["result"]
            self.events.append(message.get("method"))

    def show(self, url, width, dark=False):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500)
        self.events = []
        self.call("Page.navigate", url=url)
        while "Page.loadEventFired" not in self.events:
            self.events.append(self.receive().get("method"))

    def evaluate(self, expression):
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")
