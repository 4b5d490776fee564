#!/usr/bin/env python3
"""examples/stage_data.py with a real stagingd and a worker that obeys a script. Environment:
STAGINGD."""
import os
import subprocess
import sys
import unittest

from stagingd import CONF, Daemon, wait_for

MODULE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/stage_data.py")
sys.path.insert(0, os.path.dirname(MODULE))
import stage_data  # noqa: E402

try:
    import torch
    import torch.utils.data
except ImportError:
    torch = None


class Module(unittest.TestCase):
    def start(self, value):
        daemon = Daemon(value, conf=CONF)
        self.addCleanup(daemon.close)
        os.environ["STAGE_DATA_SOCKET"] = daemon.socket_path
        return daemon

    def test_wait_returns_the_paths(self):
        d = self.start("a=/fake/facts.sleep200.ready,b=/fake/facts.ready")
        paths = stage_data.wait()
        self.assertEqual(paths, {name: d.status(name)["path"] for name in "ab"})
        self.assertEqual(stage_data.wait("b"), {"b": paths["b"]})
        self.assertEqual(stage_data.path("a"), paths["a"])

    def test_a_failure_has_its_code_and_its_sentence(self):
        d = self.start("a=/fake/facts.error7,b=/fake/facts.error7::onfail=ignore,c=/fake/facts.ready")
        with self.assertRaises(stage_data.StageError) as caught:
            stage_data.wait("a")
        done = d.wait(names="a")
        self.assertEqual((caught.exception.code, str(caught.exception)), (7, done["text"]))
        with self.assertRaisesRegex(stage_data.StageError, "^a: .") as caught:
            stage_data.path("a")
        self.assertEqual(caught.exception.code, 7)
        with self.assertRaises(stage_data.StageError) as caught:
            stage_data.wait("nothing")
        self.assertEqual(caught.exception.code, 4)

    def test_processes_of_a_dataloader_read_what_is_staged(self):
        """PyTorch forks its readers, and each asks for the path by itself. Seen failing with a path
        of another dataset."""
        if not torch:
            if "torch" in os.environ.get("STAGE_TEST_MUST", "").split(","):
                self.fail("python3-torch must be there (STAGE_TEST_MUST)")
            self.skipTest("python3-torch is missing")
        self.start("a=/fake/facts.sleep200.ready,b=/fake/facts.ready")
        root = stage_data.wait("a")["a"]
        os.makedirs(root)
        for i in range(12):
            with open(f"{root}/{i}", "w") as f:
                f.write(str(i * i))

        class Squares(torch.utils.data.Dataset):
            def __len__(self):
                return 12

            def __getitem__(self, i):
                with open(os.path.join(stage_data.path("a"), str(i))) as f:
                    return torch.tensor(int(f.read()))

        for n in 0, 3:
            loader = torch.utils.data.DataLoader(Squares(), batch_size=2, num_workers=n)
            self.assertEqual([x for batch in loader for x in batch.tolist()], [i * i for i in range(12)])

    def test_what_may_fail_is_left_out(self):
        self.start("b=/fake/facts.error7::onfail=ignore,c=/fake/facts.ready")
        self.assertEqual(list(stage_data.wait()), ["c"])

    def test_what_is_not_ready_says_so(self):
        d = self.start("a=/fake/facts.progress10.silent")
        wait_for(lambda: d.status("a")["state"] == "staging")
        with self.assertRaises(stage_data.StageError) as caught:
            stage_data.wait("a", timeout=0.3)
        self.assertEqual(caught.exception.code, stage_data.TIMED_OUT)
        with self.assertRaises(stage_data.StageError) as caught:
            stage_data.path("a")
        self.assertEqual(caught.exception.code, stage_data.NOT_READY)
        (a,) = stage_data.status()
        self.assertEqual((a.name, a.state, a.reason), ("a", "staging", ""))
        self.assertGreaterEqual(a.total, 1)

    def test_a_daemon_that_ends_is_an_error(self):
        d = self.start("a=/fake/facts.ready")
        stage_data.wait()
        d.end()
        with self.assertRaises(stage_data.StageError):
            stage_data.status()
        del os.environ["STAGE_DATA_SOCKET"]
        with self.assertRaisesRegex(stage_data.StageError, "STAGE_DATA_SOCKET"):
            stage_data.status()

    def test_as_a_program_it_prints_the_paths(self):
        d = self.start("a=/fake/facts.ready,b=/fake/facts.error7")

        def run(name):
            return subprocess.run([sys.executable, MODULE, name], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, universal_newlines=True, timeout=60)
        self.assertEqual((run("a").returncode, run("a").stdout), (0, f"a\t{d.status('a')['path']}\n"))
        failed = run("b")
        self.assertEqual((failed.returncode, failed.stdout), (7, ""))
        self.assertTrue(failed.stderr.startswith("stage_data: b"), failed.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
