#!/usr/bin/env python3
"""Each call of the real stage-keeper into the kernel fails once: it answers, and the clean-up takes all away.

usage: keeper-calls-test.py KEEPER HAND FAKE RUNDIR LIBEXECDIR FAILCALLS PART/PARTS

FAILCALLS is failcalls.c, built to be preloaded. Of the calls each PARTS-th is failed, beginning
with the PART-th. The namespaces and the jobs are keeper-test.py's.

Breaks when a result is not looked at: what the next clean-up doesn't know of stays.
"""
import contextlib
import importlib.util
import os
import signal
import sys
import time

here = os.path.dirname(os.path.realpath(__file__))
spec = importlib.util.spec_from_file_location('keeper_test', os.path.join(here, 'keeper-test.py'))
kt = importlib.util.module_from_spec(spec)
spec.loader.exec_module(kt)

FAILCALLS = os.path.abspath(sys.argv[6])
PART, PARTS = (int(n) for n in sys.argv[7].split('/'))
TOLD = kt.SCRATCH + '/told'
MOST = 2000
MISSES = 6      # so many in a row and there are no more calls: a number may fall between two processes'
CONF = f'[daemon]\nLogFile={kt.LOG}\n'


def failing(at):
    return ['env', 'LD_PRELOAD=' + FAILCALLS, f'FAILCALLS_AT={at}', 'FAILCALLS_TOLD=' + TOLD]


def told():
    """What failed since the last question."""
    with contextlib.suppress(OSError):
        with open(TOLD) as f:
            names = f.read().split('\n')[:-1]
        os.unlink(TOLD)
        return names
    return []


def use(job):
    """What stagingd asks for in a job's life; any answer will do, silence will not."""
    sock = None
    end = time.monotonic() + 10
    while not sock and time.monotonic() < end:
        if job.process.poll() is not None or os.path.exists(job.dir + '/failed'):
            return
        with contextlib.suppress(OSError):
            s = kt.socket.socket(kt.socket.AF_UNIX, kt.socket.SOCK_SEQPACKET)
            s.connect(job.dir + '/sock')
            sock = s
        kt.reap_orphans()
        time.sleep(0.005)
    if not sock:
        return
    job.sock = sock
    sock.settimeout(5)
    with contextlib.suppress(OSError):  # stagingd ends with its keeper
        for text in 'spawn 1 0', 'tier 1', 'spawn 2 1', 'mount 0 3', 'kill 1 15', 'spawn 3 0':
            job.do(text)


def assert_not_killed(status, what):
    assert status is None or status >= 0, f'{what}: the keeper died of signal {-status}'


def run_fails(at):
    job = kt.Job(expect=None, under=failing(at))
    if job.answer[:1] == 'R':
        use(job)
    failed = told()
    what = f'call {at} {failed}'
    assert job.answer[:1] != 'E' or len(job.answer) > 10, f'{what}: no sentence: {job.answer!r}'
    assert_not_killed(job.process.poll(), what)
    status = job.clean()
    assert status.returncode == 0, f'{what}: clean: {status.stderr}'
    job.ended()
    assert_not_killed(job.process.returncode, what)
    job.assert_gone()
    return failed + told()              # at the keeper's own end


def clean_fails(at):
    job = kt.Job()
    use(job)
    status = kt.run(*failing(at), f'{kt.LIBEXEC}/stage-keeper', 'clean', '--job', str(job.id), '--timeout',
                    '3000', check=False, capture_output=True, text=True, timeout=60)
    failed = told()
    what = f'call {at} {failed}'
    assert_not_killed(status.returncode, what)
    if status.returncode == 0:          # nobody comes again
        assert not os.path.exists(job.dir), f'{what}: clean says that nothing is left: {os.listdir(job.dir)}'
        job.assert_gone()
    else:
        assert status.stderr, f'{what}: no sentence'
    again = job.clean()
    assert again.returncode == 0, f'{what}: clean again: {again.stderr}'
    job.ended()
    job.assert_gone()
    return failed


def give_up(*_):
    raise TimeoutError('no answer')


def walk(name, step):
    bad = n_failed = n_missed = 0
    start = time.monotonic()
    signal.signal(signal.SIGALRM, give_up)
    for at in range(PART, MOST, PARTS):
        kt.write_conf(CONF)
        try:
            signal.alarm(30)
            failed = step(at)
        except Exception as e:  # the rest is of interest too
            failed = ['?']
            bad += 1
            print(f'NOT OK {name}: call {at} {told()}: {e!r}', flush=True)
        signal.alarm(0)
        kt.clear()
        told()
        n_missed = 0 if failed else n_missed + 1
        if n_missed == MISSES:
            break
        n_failed += bool(failed)
    print(f'{"ok" if not bad and n_failed else "NOT OK"} {name}: {n_failed} calls failed, '
          f'{time.monotonic() - start:.1f} s', flush=True)
    return bad == 0 and n_failed > 0


def main():
    kt.set_up_namespace()
    if os.environ.get('KEEPER_CALL'):   # one of them, to look at: run:104
        name, at = os.environ['KEEPER_CALL'].split(':')
        kt.write_conf(CONF)
        try:
            print({'run': run_fails, 'clean': clean_fails}[name](int(at)))
        finally:
            with contextlib.suppress(OSError):
                print(open(kt.LOG).read())
        return
    good = [walk(name, step) for name, step in (('run', run_fails), ('clean', clean_fails))]
    sys.exit(0 if all(good) else 1)


kt.start(main)
