# The path of a dataset is a real directory or file, for each method and tier. Commands that users
# type give the same result as on a tar that was extracted to memory. A kept dataset is mounted on
# its path, and stays complete whichever process dies.

# paths_site: with what is kept for an hour, and a tier that nodes share; both go with the test
paths_site() {
	cat >"$base/etc/stage-data/stage-data.conf" <<-'CONF'
	[daemon]
	LogFile=/var/log/stage-data.log
	[limits]
	KeepFreeMemory=64M
	MaxItems=64
	[source pfs]
	Match=/srv/pfs/**
	[tier shm]
	Kind=memory
	[tier ssd]
	Kind=disk
	Path=/srv/local
	MaxKeep=1h
	[tier scratch]
	Kind=shared
	Path=/srv/pfs/scratch/%u
	CONF
	mkdir -p "$pfs/scratch/alice"
	chown 4001:4001 "$pfs/scratch/alice"
	at_end "rm -rf '$pfs/scratch'; for n in n1 n2 n3; do on \$n bash -c 'rm -rf /srv/local/stage-keep-*'; done"
}

readonly paths_data=/srv/pfs/paths

# 200 files, as a directory, a tar, an image, and below outer/inner of a tar
paths_make_data() {
	local dir=$pfs/paths

	mkdir -p "$dir/outer/inner" "$dir/small"
	at_end "rm -rf '$dir'"
	cp -a "$pfs"/data/many/0[01] "$dir/small/"
	cp -a "$pfs"/data/many/0[01] "$dir/outer/inner/"
	tar -C "$dir/small" -cf "$dir/small.tar" .
	tar -C "$dir" -cf "$dir/wrapped.tar" outer
	mksquashfs "$dir/small" "$dir/small.sqsh" -quiet -no-progress >/dev/null
	(cd "$dir/small" && zip -qr ../small.zip .)
	chmod -R a+rX "$dir"
}

# Prints for the variable of each name after the first whether everything gives the same as for the
# first.
paths_compare() {
	cat >"$pfs/compare-paths.py" <<-'PYTHON'
	import glob, hashlib, os, pathlib, shutil, subprocess, sys, tempfile

	def digest(path):
	    return hashlib.sha1(open(path, 'rb').read()).hexdigest()[:12] if os.path.isfile(path) else os.readlink(path)

	def below(top):
	    """What is at top, and below it: names, and contents."""
	    found = ['link' if os.path.islink(top) else 'dir' if os.path.isdir(top) else 'file ' + digest(top)]
	    for at, dirs, files in os.walk(top):
	        found += [os.path.relpath(os.path.join(at, n), top) for n in dirs]
	        found += [os.path.relpath(os.path.join(at, n), top) + ' ' + digest(os.path.join(at, n)) for n in files]
	    return sorted(found)

	def output(*argv, **kwargs):
	    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True, **kwargs).stdout

	def answers(name, work):
	    p = os.environ['STAGE_DATA_PATH_' + name.upper()]
	    base = os.path.basename(p)
	    yield 'test', [subprocess.run(['test', flag, p]).returncode for flag in ('-e', '-d', '-f', '-L')]
	    for argv in (['cp', '-r', p], ['cp', '-a', p], ['cp', '-rL', p], ['cp', '-r', p + '/.'], ['rsync', '-a', p], ['rsync', '-aL', p]):
	        out = os.path.join(work, 'out')
	        os.mkdir(out)
	        if shutil.which(argv[0]) and (argv[2] == p or os.path.isdir(p)):
	            subprocess.run([*argv, out], check=True)
	            yield ' '.join(argv[:2]), below(os.path.join(out, base) if argv[2] == p else out)
	            subprocess.run(['chmod', '-R', 'u+rwx', out])
	        shutil.rmtree(out)
	    subprocess.run(['tar', 'cf', work + '/y.tar', p], check=True, stderr=subprocess.DEVNULL)
	    listed = output('tar', 'tf', work + '/y.tar').split('\n')
	    yield 'tar', sorted(line.replace(p[1:], 'P') for line in listed)
	    subprocess.run(['mksquashfs', p, work + '/y.sqsh', '-noappend', '-quiet', '-no-progress'], check=True, stdout=subprocess.DEVNULL)
	    listed = output('unsquashfs', '-l', work + '/y.sqsh').split('\n')
	    yield 'mksquashfs', sorted(line.replace('/' + base, '/N') for line in listed if line.startswith('squashfs-root'))
	    for file in 'y.tar', 'y.sqsh':
	        os.unlink(os.path.join(work, file))
	    yield 'find', sorted(output('find', p, '-printf', '%y %P\n').split('\n'))
	    yield 'find above', sorted(output('find', os.path.dirname(p), '(', '-path', p, '-o', '-path', p + '/*', ')', '-printf', '%y %p\n').replace(p, 'P').split('\n'))
	    yield 'find -type f', len(output('find', p, '-type', 'f').split('\n'))
	    # what a directory itself takes is the file system's own
	    yield 'du', sorted(line.replace(p, 'P') for line in output('du', '-a', '--apparent-size', '-b', p).split('\n')
	                       if line and not os.path.isdir(line.split('\t')[1]))
	    yield 'stat', output('stat', '-c', '%F', p), output('readlink', '-f', p) == p + '\n', output('realpath', p) == p + '\n'
	    yield 'ls', output('ls', '-1R', p).replace(p, 'P'), output('ls', '-d', p) == p + '\n'
	    yield 'find -L', sorted(output('find', '-L', p, '-printf', '%y %P\n').split('\n'))
	    yield 'sums', sorted(output('bash', '-c', 'find "$1" -type f -exec sha1sum {} +', '-', p).replace(p, 'P').split('\n'))
	    if os.path.isdir(p):
	        yield 'cd', output('bash', '-c', 'cd "$1" && pwd -P && cd .. && pwd -P && ls -d "$2"', '-', p, base) == f'{p}\n{os.path.dirname(p)}\n{base}\n'
	        yield 'globs', sorted(output('bash', '-c', 'cd "$1" && printf "%s\\n" * */*', '-', p).split('\n'))
	        yield 'tar -C', sorted(output('bash', '-c', 'tar -C "$1" -cf - . | tar -t', '-', p).split('\n'))
	        yield 'tar -h', sorted(output('bash', '-c', 'tar -hcf - "$1" 2>/dev/null | tar -t', '-', p).replace(p[1:], 'P').split('\n'))
	        yield 'grep', sorted(output('bash', '-c', 'grep -rlae . "$1"', '-', p).replace(p, 'P').split('\n'))
	        yield 'scandir', sorted((e.name, e.is_dir(follow_symlinks=False), e.is_symlink()) for e in os.scandir(p))
	        yield 'glob', sorted(g[len(p):] for g in glob.glob(p + '/**', recursive=True))
	        yield 'copytree', below(shutil.copytree(p, os.path.join(work, 'copy'), symlinks=True))
	        subprocess.run(['rm', '-rf', os.path.join(work, 'copy')], check=True)
	    with open(os.path.join(work, 'link'), 'w') as f:
	        os.unlink(f.name)
	        os.symlink(p, f.name)
	        yield 'a link to it', below(f.name + '/') if os.path.isdir(p) else digest(f.name)
	        os.unlink(f.name)
	    yield 'walk', below(p)
	    yield 'fwalk', sorted(n for _, dirs, files, _ in os.fwalk(p) for n in dirs + files) if os.path.isdir(p) else None
	    yield 'real', os.path.realpath(p) == p, pathlib.Path(p).resolve() == pathlib.Path(p)
	    yield 'relative', sorted(str(f.resolve().relative_to(p)) for f in pathlib.Path(p).rglob('*'))

	first, *others = sys.argv[1:]
	work = tempfile.mkdtemp()
	expected = list(answers(first, work))
	for name in others:
	    for want, got in zip(expected, answers(name, work), strict=True):
	        if want != got:
	            print(name, 'differs:', str(want)[:300], '|', str(got)[:300])
	    print(name, 'is compared')
	shutil.rmtree(work)
	PYTHON
	at_end "rm -f '$pfs/compare-paths.py'"
}

# paths_same FIRST ITEM...: of one job on n1. Items have names of their own.
paths_same() {
	local out names item id options=()

	names=$(printf '%s\n' "$@" | sed 's/=.*//' | paste -sd' ')
	for item; do
		options+=("--stage-data=$item")
	done
	id=$(job_submit alice -w n1 --mem=400 "${options[@]}" <<<"python3 /srv/pfs/compare-paths.py $names")
	job_done "$id" 300
	out=$(job_output "$id")
	assert_lacks "$out" differs
	assert_eq $(($# - 1)) "$(grep -c 'is compared$' <<<"$out")" "paths in: $out"
}

# paths_matrix: prints an item for each method in each tier
paths_matrix() {
	local tier kind

	for tier in shm ssd scratch; do
		echo "d_$tier=$paths_data/small:$tier"
		echo "s_$tier=$paths_data/small/*:$tier"
		for kind in tar zip sqsh; do
			echo "${kind}_e_$tier=$paths_data/small.$kind:$tier:method=extract"
			echo "${kind}_m_$tier=$paths_data/small.$kind:$tier:method=mount"
		done
	done
	for kind in tar zip sqsh; do
		echo "${kind}_m=$paths_data/small.$kind::method=mount"
		echo "${kind}_k=$paths_data/small.$kind:ssd:method=mount+keep=1h"
	done
}

readonly test_directories_are_real_for_each_method_and_tier_seconds=400
test_directories_are_real_for_each_method_and_tier() {
	local round items

	need_fuse
	paths_site
	paths_make_data
	paths_compare
	mapfile -t items < <(paths_matrix)
	for round in first kept; do
		paths_same "t=$paths_data/small.tar" "${items[@]}" "hm=$paths_data/small.sqsh:ssd:hydrate=copy" \
			"ht=$paths_data/small.tar:ssd:method=mount+hydrate=copy" "w=$paths_data/wrapped.tar::method=mount+subdir=outer/inner" \
			"k=$paths_data/small.tar:ssd:keep=1h" "ka=$paths_data/small:ssd:keep=1h" "p=$paths_data/small:/srv/local"
		echo "$round"
	done
	assert_nodes_fine
}

test_files_are_real_for_each_tier() {
	local item

	paths_site
	paths_compare
	paths_same "f=$data/flat/07.bin" "fd=$data/flat/07.bin:ssd" "fk=$data/flat/07.bin:ssd:keep=1h" "fs=$data/flat/07.bin:scratch"
	paths_same "f=$data/flat/07.bin" "fk=$data/flat/07.bin:ssd:keep=1h"
	for item in many.tar tree.zip; do # an archive as a file
		paths_same "f=$data/$item:shm:method=copy" "fd=$data/$item:ssd:method=copy" "fs=$data/$item:scratch:method=copy"
	done
}

test_a_link_stays_a_link() {
	local out

	out=$(job_run alice --stage-data="l=$data/many::method=link" <<<'readlink $STAGE_DATA_PATH_L')
	assert_contains "$out" "$data/many"
}

# slurmstepd may not enter a mounted dataset. Fails where the tasks stay in /tmp, to which it goes
# then.
test_a_step_begins_in_a_mounted_dataset() {
	local out

	need_fuse
	paths_site
	out=$(job_run alice -N2 --stage-data="m=$data/many.zstd.sqsh,d=$data/flat:ssd,t=$data/many.tar:shm" <<-'EOS'
		for p in $STAGE_DATA_PATH_M $STAGE_DATA_PATH_M/00 $STAGE_DATA_PATH_D $STAGE_DATA_PATH_T; do
			cd $p
			srun -n4 --overcommit bash -c '[[ $(pwd -P) == $0 && -n $(ls) ]] && echo begins' $p
		done
		cd /tmp
		srun bash -c '[[ $(pwd -P) == /tmp ]] && echo elsewhere'
	EOS
	)
	assert_eq 16 "$(grep -c '^begins$' <<<"$out")" "tasks in: $out"
	assert_eq 2 "$(grep -c '^elsewhere$' <<<"$out")" "tasks in: $out"
	assert_eq 2 "$(grep -c '^stage-data: the tasks begin in ' <<<"$out")" "lines in: $out"
}

# What pam_slurm_adopt does with an ssh session: it is in the cgroups of the extern step, and has no
# variables of the job.
test_an_adopted_session_has_the_paths_of_the_job() {
	local id out

	need_fuse
	paths_site
	id=$(job_submit alice -N2 -w n1,n2 --stage-data="m=$data/many.zstd.sqsh,d=$data/flat:ssd,t=$data/many.tar:shm" \
		<<<"echo begun; $until_let_go")
	job_wait_says "$id" begun
	out=$(on n1 bash -c "for dir in \$(find /sys/fs/cgroup -type d -path '*job_$id/step_extern'); do
			echo \$\$ >\$dir/cgroup.procs || true
		done
		exec setpriv --reuid alice --regid alice --init-groups --reset-env bash -c '
			. /etc/profile.d/cluster.sh
			stagectl status
			export SLURM_JOB_ID=$id
			eval \"\$(stagectl env)\"
			for p in \$STAGE_DATA_PATH_M \$STAGE_DATA_PATH_D \$STAGE_DATA_PATH_T; do
				[[ -d \$p && ! -L \$p && -n \$(ls \$p) ]] && echo seen
			done
			stagectl wait -q && stagectl status
			stagectl status --all-nodes | sed s/^/all:/'" 2>&1)
	assert_contains "$out" "set SLURM_JOB_ID"
	assert_eq 3 "$(grep -c '^seen$' <<<"$out")" "paths in: $out"
	assert_eq 3 "$(grep -cE '^[mdt] +ready ' <<<"$out")" "rows in: $out"
	# Seen failing: only this node was asked, because its socket exists.
	assert_eq 6 "$(grep -cE '^all:n[12] +[mdt] +ready ' <<<"$out")" "rows of all nodes in: $out"
	let_go "$id"
	job_done "$id"
}

# Fails when the place of a run before is not taken away, or a step has a mount namespace of before.
test_steps_and_a_requeued_job_have_real_paths() {
	local id

	need_fuse
	paths_site
	id=$(job_submit alice -N2 --requeue --open-mode=append --stage-data="m=$data/many.zstd.sqsh,d=$data/flat:ssd" <<-'EOS'
		echo "run ${SLURM_RESTART_COUNT:-0}"
		srun bash -c 'for p in $STAGE_DATA_PATH_M $STAGE_DATA_PATH_D; do
			[[ -d $p && ! -L $p ]] && cp -r $p /tmp/paths.$SLURM_PROCID.$$ && find /tmp/paths.$SLURM_PROCID.$$ -type f | wc -l
			rm -rf /tmp/paths.$SLURM_PROCID.$$
		done | sort | paste -sd" "'
		((${SLURM_RESTART_COUNT:-0})) || { echo begun; sleep 100; }
	EOS
	)
	job_wait_says "$id" begun
	on ctl scontrol requeue "$id"
	wait_until 30 job_is "$id" PENDING
	wait_until 10 job_nodes_clean "$id"
	on ctl scontrol update "jobid=$id" starttime=now
	job_done "$id" 60
	assert_eq 4 "$(job_output "$id" | grep -c '^10 2000$')" "right copies in: $(job_output "$id")"
	wait_until 20 job_nodes_clean "$id"
	for n in n1 n2 n3; do
		assert_not on $n grep -q "/run/stage-data/$id/" /proc/self/mountinfo
	done
	assert_nodes_fine
}

n_kept_files() {
	on n1 bash -c 'find /srv/local/stage-keep-4001/*/data -type f 2>/dev/null | wc -l'
}

# Releasing takes the mount away first.
test_what_is_kept_is_whole_after_release() {
	local out n

	need_fuse
	paths_site
	out=$(job_run alice -w n1 --stage-data="k=$data/many.tar:ssd:keep=1h,m=$data/many.zstd.sqsh,d=$data/flat:ssd,f=$data/flat/07.bin:ssd:keep=1h" <<-'EOS'
	echo "before $(find $STAGE_DATA_PATH_K -type f | wc -l)"
	for name in k m d f; do stagectl release $name && echo "released $name"; done
	ls -A $STAGE_DATA_DIR | sed "s/^/left /"
	grep -c "$STAGE_DATA_DIR/" /proc/self/mountinfo | sed "s/^/mounts /"
	stagectl add d=/srv/pfs/data/flat:ssd && stagectl wait -q d && test -d $STAGE_DATA_PATH_D -a ! -L $STAGE_DATA_PATH_D && echo again
	EOS
	)
	n=$(find "$pfs/data/many" -type f | wc -l)
	assert_contains "$out" "before $n"
	assert_eq 4 "$(grep -c '^released ' <<<"$out")" "released in: $out"
	assert_lacks "$out" "left "
	assert_contains "$out" "mounts 0"
	assert_contains "$out" again
	assert_eq $((n + 1)) "$(n_kept_files)" "files that are kept"
	assert_nodes_fine
}

# paths_survive COMMAND: a job that reads what is kept, on which COMMAND is done; nothing is left
# then but that
paths_survive() {
	local id n

	id=$(job_submit alice -w n1 --stage-data="k=$data/many.tar:ssd:keep=1h,m=$data/many.zstd.sqsh,d=$data/flat:ssd" \
		<<<"find \$STAGE_DATA_PATH_K -type f | wc -l; $until_let_go; find \$STAGE_DATA_PATH_K -type f | wc -l")
	n=$(find "$pfs/data/many" -type f | wc -l)
	job_wait_says "$id" "$n"
	eval "$1"
	let_go "$id"
	job_wait "$id"
	wait_until 20 job_nodes_clean "$id"
	wait_until 10 eval '! on n1 grep -q "/run/stage-data/$id/" /proc/self/mountinfo'
	assert_eq "$n" "$(n_kept_files)" "files that are kept after: $1"
	assert_nodes_fine
}

readonly test_what_is_kept_is_whole_after_kills_seconds=300
test_what_is_kept_is_whole_after_kills() {
	need_fuse
	paths_site
	forgive_crashes n1
	paths_survive true
	paths_survive 'as alice scancel "$id"'
	paths_survive 'on n1 pkill -KILL -x stagingd'
	paths_survive 'on n1 pkill -KILL -x stage-manager'
	paths_survive 'on n1 kill -KILL "$(on n1 sed -nE "s/^keeper=([0-9]+):.*/\1/p" "/run/stage-data/$id/state")"'
}
