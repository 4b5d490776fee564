#!/usr/bin/env python3
"""Calls into the kernel of the real stage-keeper, or of its manager, fail, each once: there is an
answer, and the clean-up takes all away.

usage: keeper-calls-test.py KEEPER HELPER FAKE RUNDIR LIBEXECDIR FAILCALLS PART/PARTS [WHOSE]

FAILCALLS is failcalls.c, built to be preloaded: its head says what calls count as one. Of these the
PART-th of PARTS shares fails. WHOSE: keeper (the default), or by their argv[0] stage-manager, or
stage-helper: the tasks that the manager has done, each a process that ends with its answer. The
namespaces and the jobs are keeper-test.py's. What a job has here: a step's groups to leave, a group
of memory, a mount namespace, tiers of root's and of the user's, a place for what is kept, workers,
an image, figures.

Breaks when a result is not looked at: what the next clean-up doesn't know of stays.
"""
import contextlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import traceback

here = os.path.dirname(os.path.realpath(__file__))
spec = importlib.util.spec_from_file_location('keeper_test', os.path.join(here, 'keeper-test.py'))
kt = importlib.util.module_from_spec(spec)
spec.loader.exec_module(kt)

FAILCALLS = os.path.abspath(sys.argv[6])
PART = sys.argv[7]
WHOSE = sys.argv[8] if len(sys.argv) > 8 else 'keeper'
PRELOADED = kt.SCRATCH + '/failcalls.so'    # where nobody can read it
SETTINGS = '/run/failcalls'                 # FAILCALLS_FILE
TOLD = kt.SCRATCH + '/told'
SEEN, SEEN_SIZE = kt.SCRATCH + '/seen', 8 + 8 * 8192   # struct seen of failcalls.c
METRICS = kt.SCRATCH + '/figures/stage.prom'
NAMESPACE = kt.SCRATCH + '/namespace'
STICKY = kt.SCRATCH + '/sticky'
DEATH = 'death'     # FAILCALLS_DEATH
MOST = 2000
MISSES = 2      # so many runs in a row without one and there are no more: times differ
HAS_MEMORY = os.path.exists(kt.MEMORY + '/memory.limit_in_bytes')


def write_conf():
    kt.write_conf(f'[daemon]\nLogFile={kt.LOG}\n[metrics]\nTextfile={METRICS}\n[mount]\nJobNamespace={NAMESPACE}\n')
    with open(kt.CONF) as f:
        text = f.read()
    with open(kt.CONF, 'w') as f:
        f.write(text.replace(f'Path={kt.DISK}\n', f'Path={kt.DISK}\nMaxKeep=1h\n'))


@contextlib.contextmanager
def failing():
    """What is started meanwhile fails; a keeper, by the command that is put in front of it."""
    with open(SEEN, 'r+b') as f:
        f.write(bytes(4))
    os.truncate(TOLD, 0)
    if WHOSE == 'keeper':
        yield ['env', 'LD_PRELOAD=' + FAILCALLS, 'FAILCALLS_SEEN=' + SEEN, 'FAILCALLS_TOLD=' + TOLD,
               'FAILCALLS_PART=' + PART]
        return
    with open(SETTINGS, 'w') as f:
        f.write(f'{WHOSE}\n{SEEN}\n{TOLD}\n{PART}\n')
    try:
        yield []
    finally:
        os.unlink(SETTINGS)


def preload():
    """The environment of a manager and its helpers is made from nothing."""
    kt.cover('/etc', 'etc')
    kt.write_passwd() # what is mounted on a file of /etc is not in the overlay
    shutil.copyfile(FAILCALLS, PRELOADED)
    os.chmod(PRELOADED, 0o755)
    with open('/etc/ld.so.preload', 'w') as f:
        f.write(PRELOADED + '\n')


def told():
    """What has failed in this run; the user's processes tell it, too."""
    with open(TOLD) as f:
        return f.read().split('\n')[:-1]


def has_failed():
    with open(SEEN, 'rb') as f:
        return f.read(4) != bytes(4)


def spell(call):
    """The name, and where it was called from, as far as the program knows."""
    name, *at = call.split()
    if not at:
        return name
    program = kt.KEEPER if WHOSE == 'keeper' else kt.HELPER
    lines = subprocess.run(['addr2line', '-e', program, '-s', '-f', *[hex(int(a, 16) - 1) for a in at]],
                           capture_output=True, text=True, check=False).stdout.split('\n')
    return name + ' of ' + ' < '.join(f'{f} {where}' for f, where in zip(lines[::2], lines[1::2]))


@contextlib.contextmanager
def groups(job):
    """A job's groups as Slurm makes them, and a command in front of the keeper to be in its
    step's."""
    top = f'{kt.MEMORY}/{kt.SLURM}/uid_{kt.UID}/job_{job}'
    if not HAS_MEMORY:
        yield []
        return
    os.makedirs(top + '/step_0')
    with open(top + '/memory.limit_in_bytes', 'w') as f:
        f.write(str(kt.LIMIT))
    try:
        yield ['sh', '-c', f'echo 0 >{top}/step_0/tasks; exec "$@"', '--']
        assert not os.path.exists(top + '/stage-data'), 'the group of memory is left'
    finally:
        for path in top + '/stage-data', top + '/step_0', top, os.path.dirname(top), f'{kt.MEMORY}/{kt.SLURM}':
            with contextlib.suppress(OSError):
                os.rmdir(path)


def connect(job):
    """False: there is nobody to be asked, and that is known."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        if job.process.poll() is not None or os.path.exists(job.dir + '/failed'):
            return False
        s = kt.socket.socket(kt.socket.AF_UNIX, kt.socket.SOCK_SEQPACKET)
        try:
            s.connect(job.dir + '/sock')
            job.sock = s
            s.settimeout(10)
            return True
        except OSError:         # not yet, or never
            with contextlib.suppress(FileNotFoundError), open(kt.LOG) as log:  # its open may be what failed
                if re.search(rf'job={job.id} stagingd .*: its workers end with it', log.read()):
                    return False
        kt.reap_orphans()
        time.sleep(0.005)
    raise AssertionError('neither a socket nor a sentence')


def use(job):
    """What stagingd asks for in a job's life; any answer will do, silence will not."""
    if not connect(job):
        return
    for text in ('tier 1 1', 'spawn 1 0', 'tier 2', 'mount 0 3', 'spawn 2 1', 'worker 2 fuse ok', 'mount 1 2',
                 'unmount 1', 'kill 1 15', 'count 2 1', 'say', 'spawn 3 0', 'events'):
        try:
            if not job.do(text):
                return          # stagingd ends with its keeper
        except TimeoutError as e:
            raise AssertionError(f'no answer to "{text}"') from e
        except OSError:
            return


def assert_nothing_left(job, what):
    """The last word is the timer's."""
    reaped = kt.keeper('reap', '--conf', kt.CONF)
    assert reaped.returncode == 0, f'{what}: reap: {reaped.stderr}'
    names = {name: kt.processes(name) for name in ('stagingd', 'stage-worker')}
    assert not any(names.values()), f'{what}: {names} are left: {open(kt.LOG).read()[-2000:]}'
    job.assert_gone()
    # An empty one of root's waits for the user's next job.
    keep = f'{kt.DISK}/stage-keep-{kt.UID}'
    with contextlib.suppress(OSError):
        if os.stat(keep).st_uid == 0:
            os.rmdir(keep)
    left = [d for d in os.listdir(kt.RUNDIR) if d[0] != '.'] + os.listdir(kt.RUNDIR + '/.trash') + \
        os.listdir(STICKY) + os.listdir(kt.DISK)
    assert not left, f'{what}: left: {left}'
    inside = [m for m in kt.mounts(pin.pid) if m.startswith(job.dir + '/')]
    assert not inside, f'{what}: left in the namespace: {inside}'
    assert os.listdir(os.path.dirname(METRICS)) in ([], ['stage.prom'], ['stage.prom.tmp']) or \
        sorted(os.listdir(os.path.dirname(METRICS))) == ['stage.prom', 'stage.prom.tmp'], what


def assert_not_killed(status, what):
    assert status is None or status >= 0, f'{what}: the keeper died of signal {-status}'
    assert DEATH not in told(), f'{what}: {WHOSE} died of a signal'


def end_of(job, what):
    status = job.clean()
    assert status.returncode == 0, f'{what}: clean: {status.stderr}'
    job.ended(20)
    if job not in killed:
        assert_not_killed(job.process.returncode, what)
    assert_nothing_left(job, what)


def run_fails():
    number = kt.next_job + 1
    with groups(number) as under:
        with failing() as fails:
            job = kt.Job('--step', expect=None, under=[*under, *fails])
        if job.answer[:1] == 'R':
            use(job)
        what = told()
        assert job.answer[:1] != 'E' or len(job.answer) > 10, f'{what}: no sentence: {job.answer!r}'
        assert_not_killed(job.process.poll(), what)
        end_of(job, what)


def again_fails():
    """The job was here before, and its keeper was killed: the prolog of its next run finds what
    that left."""
    before = crashed()
    with failing() as under:
        job = kt.Job(job=before.id, restart=1, expect=None, under=under)
    if job.answer[:1] == 'R':
        connect(job)
    what = told()
    assert job.answer[:1] in 'RE' and (job.answer[:1] != 'E' or len(job.answer) > 10), \
        f'{what}: no sentence: {job.answer!r}'
    assert_not_killed(job.process.poll(), what)
    end_of(job, what)


def crashed():
    job = kt.Job()
    use(job)
    job.process.kill()
    job.process.wait()
    killed.append(job)
    kt.wait_for(lambda: kt.lock_is_free(job.dir), what='what the keeper was about to start to see that it has none')
    return job


def cleaner_fails(job, *argv):
    """A clean-up that says all is well has left nothing; one that does not says why, and the next
    one does it."""
    with failing() as under:
        status = kt.run(*under, f'{kt.LIBEXEC}/stage-keeper', *argv, check=False, capture_output=True, text=True,
                        timeout=60)
    what = told()
    assert_not_killed(status.returncode, what)
    if status.returncode == 0 and 'its data stays' not in status.stderr:     # nobody comes again
        assert not os.path.exists(job.dir), f'{what}: {argv[0]} says that nothing is left: {os.listdir(job.dir)}'
    else:
        assert status.stderr, f'{what}: no sentence'
    end_of(job, what)


def clean_fails():
    job = kt.Job()
    use(job)
    cleaner_fails(job, 'clean', '--job', str(job.id), '--timeout', '3000')


def clean_of_crashed_fails():
    """Twice before: now the node stages no more, until nothing has crashed for an hour."""
    with groups(kt.next_job + 1):
        job = crashed()
        with open(kt.RUNDIR + '/.crashes', 'wb') as f:
            f.write(int(time.monotonic() * 1000).to_bytes(8, sys.byteorder) * 2)
        cleaner_fails(job, 'clean', '--job', str(job.id), '--timeout', '3000')
    assert has_failed() or os.path.exists(kt.RUNDIR + '/.breaker'), 'three crashes have not opened the breaker'


def reap_fails():
    """A crashed keeper's job, what lies in tiers without one, and a breaker whose time is over."""
    job = crashed()
    for path in f'{kt.DISK}/stage-data-9', f'{kt.DISK}/stage-data-8.123':
        os.makedirs(path + '/a')
        kt.run('chown', '-R', f'{kt.UID}:{kt.GID}', path)
    for name in '.crashes', '.breaker':
        open(f'{kt.RUNDIR}/{name}', 'w').close()
    cleaner_fails(job, 'reap', '--conf', kt.CONF)


def reap_beside_fails():
    """What a job has that lives is not what no job uses, whatever can't be looked at."""
    job = kt.Job()
    use(job)
    mine = f'{kt.DISK}/stage-data-{job.id}'
    assert os.path.isdir(mine)
    with failing() as under:
        kt.run(*under, f'{kt.LIBEXEC}/stage-keeper', 'reap', '--conf', kt.CONF, check=False, capture_output=True,
               timeout=60)
    assert os.listdir(kt.DISK).count(os.path.basename(mine)) == 1, f'{told()}: {os.listdir(kt.DISK)}'
    assert job.do('events') and os.path.ismount(job.dir + '/t'), told()
    end_of(job, told())


# Those of a line have their places in common: the next fails what it has of its own.
WALKS = ((run_fails, again_fails),
         (clean_fails, clean_of_crashed_fails, reap_fails), (reap_beside_fails,))


def give_up(*_):
    raise TimeoutError('not done within a minute')


def walk(step):
    bad = n_failed = n_missed = 0
    name = step.__name__
    start = time.monotonic()
    signal.signal(signal.SIGALRM, give_up)
    while n_missed < MISSES and n_failed < MOST:
        write_conf()
        try:
            signal.alarm(60)
            step()
        except Exception as e:  # the rest is of interest too
            bad += 1
            where = traceback.extract_tb(e.__traceback__)[-1]
            print(f'NOT OK {name}: {[spell(call) for call in told()]}: {where.name}:{where.lineno}: {e!r}', flush=True)
        signal.alarm(0)
        kt.clear()
        for left in os.listdir(STICKY):
            shutil.rmtree(f'{STICKY}/{left}')
        n_missed = 0 if has_failed() else n_missed + 1
        n_failed += has_failed()
    with open(SEEN, 'rb') as f:
        assert f.read(8)[4:] == bytes(4), 'MAX_SEEN of failcalls.c is too small'
    print(f'{"NOT OK" if bad else "ok"} {name}: {n_failed} calls failed, '
          f'{time.monotonic() - start:.1f} s', flush=True)
    return n_failed, bad


def main():
    global pin
    kt.set_up_namespace()
    os.makedirs(os.path.dirname(METRICS))
    open(TOLD, 'w').close()
    os.chmod(TOLD, 0o666)
    if WHOSE != 'keeper':
        preload()
    pin = kt.new_namespace()
    # As job_container/tmpfs has it: a keeper follows no link, and would wait a second for each.
    open(NAMESPACE, 'w').close()
    kt.run('mount', '--bind', f'/proc/{pin.pid}/ns/mnt', NAMESPACE)
    # cgroups are everybody's, the other programs' too
    kt.next_job = 1000 * (1 + int(PART.split('/')[0])) + 100000 * ['keeper', 'stage-manager', 'stage-helper'].index(WHOSE)
    wanted = os.environ.get('KEEPER_CALLS', '').split()     # some of the walks, to look at
    came_to = []
    for steps in WALKS:
        with open(SEEN, 'wb') as f:
            f.truncate(SEEN_SIZE)
        os.chmod(SEEN, 0o666)
        came_to += [walk(step) for step in steps if not wanted or step.__name__ in wanted]
    pin.kill()
    sys.exit(any(bad for _, bad in came_to) or not any(n for n, _ in came_to))


pin = None
killed = []     # by us
kt.start(main)
