#!/usr/bin/env python3
"""The plugin under psslurm, with the real keeper, daemon and workers, as root, in namespaces of its
own.

usage: psslurm-test.py PSID PLUGIN BUILT RUNDIR LIBEXECDIR BINDIR [TEST...]

PSID plays psslurm (psid.c); BUILT has the programs, whose directories these are. Exit 77: this
machine can't run it. KERNEL=4.18 and OLD_KERNEL, tests/lib/old-kernel.c: all of it is run as on
that kernel.
"""
import contextlib
import os
import re
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'data'))
from sqfs_writer import File, build  # noqa: E402

USER_ID = 65534
PRIVATE = 'STAGE_PSSLURM_TEST_PRIVATE'
SCRATCH = '/run/psslurm-test'
CONF, REPORT = SCRATCH + '/stage-data.conf', SCRATCH + '/report'
DATA, OUT = SCRATCH + '/data', SCRATCH + '/out'
PROGRAMS = {'stage-keeper': 0o755, 'stagingd': 0o755, 'stage-worker': 0o755, 'stage-helper': 0o711}
HASH = '0' * 16

PSID, PLUGIN, BUILT, RUNDIR, LIBEXEC, BIN = sys.argv[1:7]


def skip(why):
    print('skipped:', why)
    sys.exit(77)


def run(*argv, check=True, **kwargs):
    return subprocess.run(argv, check=check, **kwargs)


def cover(directory, name):
    """What is put there is seen here alone."""
    while not os.path.isdir(directory):
        directory = os.path.dirname(directory)
    for sub in 'upper', 'work':
        os.makedirs(f'{SCRATCH}/{name}/{sub}')
    if run('mount', '-t', 'overlay', 'overlay', '-o', f'lowerdir={directory},upperdir={SCRATCH}/{name}/upper,'
           f'workdir={SCRATCH}/{name}/work', directory, check=False).returncode:
        skip('no overlay file system to put programs in place with')


def install(program, mode, directory=LIBEXEC):
    found = [os.path.join(d, program) for d, _, names in os.walk(BUILT) if program in names]
    os.makedirs(directory, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f'{directory}/{program}')  # it may be running
    shutil.copyfile(found[0], f'{directory}/{program}')
    os.chmod(f'{directory}/{program}', mode)


def set_up():
    run('mount', '--make-rprivate', '/')
    run('mount', '-t', 'tmpfs', '-o', 'mode=0755', 'tmpfs', '/run')
    os.makedirs(DATA + '/tree')
    os.mkdir(OUT)
    os.mkdir(SCRATCH + '/ssd')
    os.chown(OUT, USER_ID, USER_ID)
    if not RUNDIR.startswith('/run/'):
        cover(os.path.dirname(RUNDIR), 'run')
    cover(LIBEXEC, 'libexec')
    cover(BIN, 'bin')
    for program, mode in PROGRAMS.items():
        install(program, mode)
    install('stagectl', 0o755, BIN)
    for i in range(20):
        with open(f'{DATA}/tree/{i}', 'w') as f:
            f.write(f'{i}\n' * 100)
    run('tar', '-C', DATA, '-cf', DATA + '/tree.tar', 'tree')
    with open(DATA + '/image.sqsh', 'wb') as f:
        f.write(build({'file': File(b'of the image\n' * 1000)}))
    add_system_user()
    if not os.path.ismount('/sys/fs/fuse/connections'):
        run('mount', '-t', 'fusectl', 'fusectl', '/sys/fs/fuse/connections')


def add_system_user():
    """The installation of the package does it for a machine."""
    with open('/etc/passwd') as f:
        lines = [line for line in f if not line.startswith('stage-data:')]
    with open(SCRATCH + '/passwd', 'w') as f:
        f.writelines([*lines, 'stage-data:x:490:490::/nonexistent:/usr/sbin/nologin\n'])
    run('mount', '--bind', SCRATCH + '/passwd', '/etc/passwd')


def write_conf(text=f'[tier shm]\nKind=memory\n[tier ssd]\nKind=disk\nPath={SCRATCH}/ssd\n'):
    with open(CONF, 'w') as f:
        f.write(f'[daemon]\nLogFile={SCRATCH}/stage.log\n[limits]\nMaxMemoryPercent=10\nKeepFreeMemory=64M\n'
                f'[source all]\nMatch={DATA}/**\n{text}')


class Psid:
    def __init__(self):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(REPORT)
        self.process = subprocess.Popen([PSID, REPORT, PLUGIN, 'conf=' + CONF], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=open(SCRATCH + '/stderr', 'w'), text=True)
        assert self.process.stdout.readline() == 'ready\n', said()

    def do(self, command):
        self.process.stdin.write(command + '\n')
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def prolog(self, rundir):
        """The hook waits for half a second at most, and a busy machine may take longer to start
        it."""
        assert self.do('prolog') == 0
        wait_for(lambda: any(os.path.exists(f'{rundir}/{name}') for name in ('sock', 'failed')) or
                 'stage-keeper' not in processes(), 'the keeper to be there, or gone')

    def end(self):
        self.process.stdin.close()
        assert self.process.wait() == 0

    def job(self, value, wait='script', spec=None):
        """A job of a node, with the environment that its prologue and its script have at a site."""
        global next_job
        next_job += 1
        assert self.do(f'job {next_job} {USER_ID} {USER_ID}') == 0
        for name, text in {
                'PATH': f'{BIN}:/usr/bin:/bin', 'SLURM_JOB_ID': next_job, 'SLURM_JOB_NUM_NODES': 1,
                'SLURM_JOB_NODELIST': os.uname().nodename.split('.')[0], 'SLURM_JOB_PARTITION': 'batch'}.items():
            assert self.do(f'env {name}={text}') == 0
        if value is not None:
            spec = f'1:{wait}:{HASH}:{value}'
        if spec is not None:
            for name in 'SPANK_STAGE_SPEC', 'SLURM_SPANK_STAGE_SPEC':
                assert self.do(f'env {name}={spec}') == 0
        return f'{RUNDIR}/{next_job}'


next_job = 700


def said():
    return open(SCRATCH + '/stderr').read()


def hooks():
    return [line.split() for line in open(REPORT)]


def failed_hooks():
    return [hook for hook in hooks() if hook[-1] == 'error']


def processes():
    found = []
    for pid in [int(p) for p in os.listdir('/proc') if p.isdigit()]:
        with contextlib.suppress(OSError):
            if open(f'/proc/{pid}/stat').read().rsplit(')', 1)[1].split()[0] != 'Z':
                found.append(os.path.basename(open(f'/proc/{pid}/cmdline').read().split('\0')[0]))
    return [name for name in found if name in PROGRAMS]


def wait_for(condition, what, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f'waited in vain for {what}: {processes()} {said()}'
        time.sleep(0.02)


def mounts():
    return [line.split()[4] for line in open('/proc/self/mountinfo') if line.split()[4].startswith(RUNDIR + '/')]


def assert_nothing_left(rundir):
    assert not os.path.exists(rundir), os.listdir(rundir)
    wait_for(lambda: not processes() and not mounts(), 'the end of all programs and mounts')


# Memory is waited for where no group of Slurm's for the job comes: psslurm makes none. A disk is
# not.
IN_MEMORY = f't={DATA}/tree.tar,d={DATA}/tree,m={DATA}/image.sqsh'
VALUE = f't={DATA}/tree.tar:ssd,d={DATA}/tree:ssd'
READ = 'cat $STAGE_DATA_PATH_T/tree/* $STAGE_DATA_PATH_D/* | wc -l; test $(ls $STAGE_DATA_PATH_D | wc -l) = 20'


def test_a_job_is_staged_used_and_ended():
    """The prologue has it staged, the script is held until all is there, a step has the paths as
    well."""
    psid = Psid()
    rundir = psid.job(IN_MEMORY)
    image = f'wc -c <$STAGE_DATA_PATH_M/file; grep -c "{rundir}/m/.* fuse" /proc/self/mounts'
    psid.prolog(rundir)
    assert os.path.isdir(rundir), said()
    assert psid.do(f'batch ({READ}; {image}) >{OUT}/batch') == 0, said()
    assert psid.do(f'step ({READ}; {image}) >{OUT}/step') == 0, said()
    assert psid.do('epilog') == 0
    assert_nothing_left(rundir)
    psid.end()
    assert [open(f'{OUT}/{where}').read() for where in ('batch', 'step')] == ['4000\n13000\n1\n'] * 2
    assert not failed_hooks()
    assert [h[:3] for h in hooks()] == [
        ['init', 'slurmd', 'root'], ['job_prolog', 'script', 'root'],
        *[['init', 'remote', 'root'], ['init_post_opt', 'remote', 'root'], ['user_init', 'remote', 'user'],
          ['task_init', 'remote', 'user'], ['exit', 'remote', 'root']] * 2,
        ['job_epilog', 'script', 'root']], hooks()


def test_without_a_prologue_the_first_step_starts_it():
    """A site that has no prologue of slurmctld's has no job_prolog either; and a shell of salloc's
    has no script."""
    psid = Psid()
    for first in 'batch', 'step':
        rundir = psid.job(VALUE, 'tasks' if first == 'step' else 'script')
        assert psid.do(f'{first} ({READ}) >{OUT}/first') == 0, said()
        assert open(f'{OUT}/first').read() == '4000\n'
        assert os.path.isdir(rundir)
        assert psid.do('epilog') == 0
        assert_nothing_left(rundir)
    psid.end()
    assert not failed_hooks()


def test_what_fails_fails_the_job_and_not_the_node():
    """What would drain a node is a hook's error: there is none, whatever is missing, and the task
    says why."""
    psid = Psid()
    for value, wait, why in (f't={DATA}/none.tar', 'script', 'none.tar'), (VALUE + ',', 'script', ''):
        rundir = psid.job(value, wait)
        psid.prolog(rundir)
        assert psid.do('batch true') != 0
        assert why in said()
        assert psid.do('epilog') == 0
        assert_nothing_left(rundir)
    for spec in '', '2:x', 'x' * 30000:
        rundir = psid.job(None, spec=spec)
        psid.prolog(rundir)
        assert psid.do('epilog') == 0
        assert_nothing_left(rundir)
    psid.end()
    assert not failed_hooks()


def test_without_programs_or_a_configuration():
    psid = Psid()
    for program in 'stage-keeper', 'stage-helper', 'stagingd':
        os.unlink(f'{LIBEXEC}/{program}')
        rundir = psid.job(VALUE)
        psid.prolog(rundir)
        assert psid.do('batch true') != 0, 'the script began without its data'
        assert psid.do('epilog') == 0
        install(program, PROGRAMS[program])
        if program != 'stage-keeper':
            assert_nothing_left(rundir)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f'{RUNDIR}/.breaker')
    write_conf('[tier\n')
    rundir = psid.job(VALUE)
    psid.prolog(rundir)
    assert psid.do('batch true') != 0
    assert psid.do('epilog') == 0
    assert_nothing_left(rundir)
    psid.end()
    assert not failed_hooks()


def command_of(pid):
    """Empty where it is gone, or a zombie."""
    with contextlib.suppress(OSError):
        return open(f'/proc/{pid}/cmdline').read()
    return ''


def test_a_keeper_that_hangs_holds_up_no_hook():
    """psslurm complains of hooks that take seconds. That this one hangs is seen by what the hook
    says of it; it ends with the hook, as nobody would know of it."""
    os.unlink(f'{LIBEXEC}/stage-keeper')
    with open(f'{LIBEXEC}/stage-keeper', 'w') as f:
        f.write(f'#!/bin/sh\ntest $1 = run || exit 0\necho $$ >{SCRATCH}/hung\nexec sleep 1000\n')
    os.chmod(f'{LIBEXEC}/stage-keeper', 0o755)
    psid = Psid()
    rundir = psid.job(VALUE)
    assert psid.do('prolog') == 0
    wait_for(lambda: os.path.exists(SCRATCH + '/hung') and open(SCRATCH + '/hung').read().strip(), 'the keeper to begin')
    pid = int(open(SCRATCH + '/hung').read())
    assert re.search('stage-keeper has not answered', said()), said()
    wait_for(lambda: not command_of(pid), 'its end')
    assert not os.path.exists(rundir)
    psid.end()
    install('stage-keeper', 0o755)
    assert not failed_hooks()


def test_jobs_that_ask_for_nothing_get_nothing():
    psid = Psid()
    rundir = psid.job(None)
    for command in 'prolog', 'batch test -z "$STAGE_DATA_DIR"', 'step test -z "$STAGE_DATA_DIR"', 'epilog':
        assert psid.do(command) == 0, command
        assert not os.path.exists(rundir)
    psid.end()
    wait_for(lambda: not processes(), 'the clean-up of the start')
    assert not failed_hooks() and said() == ''


def main():
    chosen = sys.argv[7:]
    set_up()
    if 'KERNEL' in os.environ:
        run(os.environ['OLD_KERNEL'], '--probe', os.environ['KERNEL'])  # fails where the filter was forgotten
    for name, test in list(globals().items()):
        if not name.startswith('test_') or chosen and name not in chosen:
            continue
        write_conf()
        start = time.monotonic()
        try:
            test()
            print(f'ok {name} {time.monotonic() - start:.2f}s', flush=True)
            with open(REPORT) as f:
                print(*['   ' + line for line in f], sep='', end='')
        except Exception as e:
            import traceback
            traceback.print_exc()
            sys.exit(f'NOT OK {name}: {e!r}\n{said()}')  # the job of this one is still there


if os.geteuid() != 0:
    skip('must be root')
if PRIVATE not in os.environ:
    if run('unshare', '-m', '-p', '--fork', '--mount-proc', 'true', check=False).returncode:
        skip('no namespaces of our own')
    os.environ[PRIVATE] = '1'
    # unshare itself may need newer calls (util-linux 2.41: pidfd_open)
    under = [os.environ['OLD_KERNEL'], os.environ['KERNEL']] if 'KERNEL' in os.environ else []
    # the shell is init, and takes care of those whose parents have ended
    os.execvp('unshare', ['unshare', '-m', '-p', '--fork', '--kill-child', '--mount-proc', 'bash', '-c',
                          '"$@" & wait $!', 'init', *under, sys.executable, *sys.argv])
main()
