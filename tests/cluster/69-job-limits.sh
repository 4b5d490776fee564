# Processes that stage data for a job are within the job's limits of memory, CPUs and devices.
# Users cannot run their own code in the processes that are outside of these limits.

# outside_of ID [NODE]: what of alice's on n1 is outside of the job's cgroups
# (tests/cluster/outside-of-job)
outside_of() {
	install -m 0755 "$here/outside-of-job" "$pfs/outside-of-job"
	as_on alice "${2:-n1}" /srv/pfs/outside-of-job "$1" >"$work/outside"
	cat "$work/outside" >&2
}

# small_outside ID KIB: what is outside has no more, and is none of those that serve or write
small_outside() {
	outside_of "$1"
	assert_not grep -qE '^(stage-worker|stage-fetch|stage-broadcast|sbcast|squeue|stage-slurm) ' "$work/outside"
	assert_not grep -q ' traced$' "$work/outside"
	assert_le "$(awk '{ sum += $3 } END { print sum + 0 }' "$work/outside")" "$2" "KiB outside of the job"
}

# limit_image NAME MIB [mksquashfs option...]: an image whose blocks are compressed, so that its
# server keeps them
limit_image() {
	local name=$1 mib=$2 from=$work/limit-from

	shift 2
	mkdir -p "$from"
	python3 -c '
import random, sys
r = random.Random(sys.argv[2])
with open(sys.argv[1] + "/text", "w") as f:
    for _ in range(int(sys.argv[2])):
        f.write(r.randbytes(1 << 19).hex())' "$from" "$mib"
	mksquashfs "$from" "$pfs/gate/$name" -noappend -quiet -no-progress -no-xattrs "$@" >/dev/null
	rm -rf "$from"
	at_end "rm -f '$pfs/gate/$name'"
}

# items N NAME [OPTIONS]: the same image under N names
limit_items() {
	local i

	for ((i = 1; i <= $1; i++)); do
		printf '%si%d=/srv/pfs/gate/%s%s' "${sep-}" $i "$2" "${3:-}"
		local sep=,
	done
}

# For a job's script: all images are read through their servers' caches, twice, by so many readers
# each
# shellcheck disable=SC2016
readonly read_images='
read_all() {
	local f i r
	for f in $STAGE_DATA_DIR/i*/text; do
		for ((r = 0; r < $1; r++)); do
			{ dd if=$f of=/dev/null bs=1M iflag=direct && dd if=$f of=/dev/null bs=1M iflag=direct skip=$r; } 2>/dev/null || echo "not read: $f" &
		done
	done
	wait
}'

# limit_job MEM READERS ITEMS: the job has read all, and waits
limit_job() {
	job_submit alice -w n1 -c1 --mem="$1" --stage-data="$3" <<-EOS
	$read_images
	read_all $2
	stagectl status
	echo "all is read"
	$until_let_go
	EOS
}

# slurmstepd makes itself the last to be killed. Where root may not do that (a container without
# CAP_SYS_RESOURCE), a job without memory can lose its slurmstepd, and Slurm takes it for running.
need_oom_score() {
	local caps

	caps=$(sed -n 's/^CapEff:\t//p' /proc/self/status)
	(((16#$caps >> 24) & 1)) || skip oom "root may not lower an oom_score_adj"
}

# That is not enough for sixteen servers: some are killed, their readers get an error, and the job
# is told why. Fails when image servers are not moved to the job's group: 300 MiB were outside of
# it.
test_sixteen_images_in_a_job_of_60_mib() {
	local id

	need_fuse
	need_cgroup
	need_oom_score
	limit_image a.sqsh 24
	id=$(limit_job 60 1 "$(limit_items 16 a.sqsh)")
	job_wait_says "$id" "all is read" 60
	small_outside "$id" 20000
	if [[ $(job_output "$id") == *"not read"* ]]; then
		assert_contains "$(job_output "$id")" "out of memory perhaps; ask for more --mem"
	fi
	let_go "$id"
	job_done "$id"
	wait_until 10 job_nodes_clean "$id"
	assert_nodes_fine
}

# What the servers keep of their images is a quarter of it at most. Fails when they are not told how
# much.
test_sixteen_images_in_a_job_of_400_mib() {
	local id

	need_fuse
	need_cgroup
	limit_image a.sqsh 24
	id=$(limit_job 400 1 "$(limit_items 16 a.sqsh)")
	job_wait_says "$id" "all is read" 60
	small_outside "$id" 20000
	assert_lacks "$(job_output "$id")" "not read"
	let_go "$id"
	job_done "$id"
}

# The same with many readers of each, whose threads have memory of their own.
test_eight_readers_of_each_of_four_images() {
	local id

	need_fuse
	need_cgroup
	limit_image a.sqsh 24
	id=$(limit_job 250 8 "$(limit_items 4 a.sqsh)")
	job_wait_says "$id" "all is read" 60
	small_outside "$id" 20000
	assert_lacks "$(job_output "$id")" "not read"
	let_go "$id"
	job_done "$id"
}

# A block is as large as it may be, and its compression wants a window of that size: some 2.3 MiB
# for each of a server's threads.
test_images_of_large_blocks() {
	local id

	need_fuse
	need_cgroup
	limit_image z.sqsh 24 -comp zstd -b 1M
	id=$(limit_job 300 2 "$(limit_items 4 z.sqsh)")
	job_wait_says "$id" "all is read" 60
	small_outside "$id" 20000
	assert_lacks "$(job_output "$id")" "not read"
	let_go "$id"
	job_done "$id"
}

# What is copied behind the mount is the job's memory as well.
test_images_that_are_copied_behind_their_mounts() {
	local id

	need_fuse
	need_cgroup
	limit_image a.sqsh 24
	id=$(limit_job 200 1 "$(limit_items 4 a.sqsh ::hydrate=copy)")
	job_wait_says "$id" "all is read" 60
	small_outside "$id" 20000
	assert_lacks "$(job_output "$id")" "not read"
	let_go "$id"
	job_done "$id"
}

# Refused where a tar that fits nowhere is not mounted.
test_a_tar_larger_than_the_memory_is_mounted_on_all_nodes() {
	local id want

	need_fuse
	site_conf <<<$'[source only]\nMatch=/srv/pfs/gate/**\nTiers=shm'
	sed -i 's|^Match=/srv/pfs/\*\*|Match=/srv/pfs/data/**|' "$base/etc/stage-data/stage-data.conf"
	mkdir -p "$work/big"
	head -c 120M /dev/urandom >"$work/big/a"
	head -c 120M /dev/urandom >"$work/big/b"
	tar -C "$work/big" -cf "$pfs/gate/big.tar" a b
	at_end "rm -f '$pfs/gate/big.tar'"
	want=$(cat "$work/big/a" "$work/big/b" | cksum)
	rm -rf "$work/big"
	id=$(job_submit alice -N3 --mem=200 --stage-data="big=/srv/pfs/gate/big.tar" <<-'EOS'
	srun --ntasks-per-node=1 bash -c 'cat $STAGE_DATA_PATH_BIG/a $STAGE_DATA_PATH_BIG/b | cksum'
	stagectl status big
	stagectl explain big
	EOS
	)
	job_done "$id"
	assert_eq 3 "$(job_output "$id" | grep -cxF "$want")" "nodes that read it"
	assert_contains "$(job_output "$id")" "mounted where it is, because it fits nowhere"
	wait_until 10 job_nodes_clean "$id"
}

# --- CPUs -----------------------------------------------------------------------------------------

# allowed_of NODE PID...: the CPUs that these processes may use, each list once
allowed_of() {
	local node=$1

	shift
	# shellcheck disable=SC2016
	on "$node" bash -c 'for pid; do cat /proc/$pid/task/*/status; done' - "$@" | sed -n 's/^Cpus_allowed_list:\t//p' | sort -u
}

# cpu_job ITEMS: a job on one of the two CPUs of n1, whose other one is somebody's
cpu_job() {
	job_submit alice -w n1 -n1 --mem=200 --stage-wait=no --stage-data="$1" <<-EOS
	taskset -cp \$\$
	stagectl wait m && echo "m is there"
	$until_let_go
	EOS
}

# What a server, or one that writes, is bound to by its user is no more than the job's CPUs. Fails
# when they are not in the job's cpuset: affinity alone can be changed.
test_nobody_binds_servers_and_writers_to_other_cpus() {
	local id want pids

	need_fuse
	need_cgroup
	gate_close n1
	id=$(cpu_job "m=$data/many.zstd.sqsh,g=/srv/pfs/gate/many.tar")
	job_wait_says "$id" "m is there"
	want=$(job_output "$id" | sed -n "s/.*affinity list: //p")
	assert_match "$want" '^[0-9]+$'
	pids=$(on n1 pgrep -x stage-worker | paste -sd' ')
	assert_eq 2 "$(wc -w <<<"$pids")" "workers"
	# shellcheck disable=SC2016,SC2086
	as_on alice n1 bash -c 'for pid; do taskset -a -cp 0,1 $pid; done' - $pids >/dev/null 2>&1 || true
	# shellcheck disable=SC2086
	assert_eq "$want" "$(allowed_of n1 $pids)" "CPUs of the workers"
	small_outside "$id" 20000
	gate_open n1
	let_go "$id"
	job_done "$id"
}

# stagingd is the user's, who may bind it as he likes; the keeper asks the kernel for the job's
# CPUs. Fails when it takes them from stagingd.
test_the_keeper_does_not_follow_a_process_of_the_users() {
	local id other want

	need_cgroup
	other=$(job_submit bob -w n1 -n1 --mem=50 <<<"$until_let_go")
	job_wait_running "$other"
	# Whatever stagingd's CPUs are, they are the wrong ones from its beginning on.
	# shellcheck disable=SC2016
	as_on alice n1 bash -c 'until [[ -e ~/bound.over ]]; do
			for pid in $(pgrep -u alice -x stagingd); do taskset -cp 0,1 $pid; taskset -cp 1 $pid; done
		done' >/dev/null 2>&1 &
	at_end "touch '$pfs/home/alice/bound.over'; wait $! || true; rm -f '$pfs/home/alice/bound.over'"
	for _ in 1 2 3; do
		id=$(cpu_job "m=$data/flat")
		job_wait_says "$id" "m is there"
		want=$(job_output "$id" | sed -n "s/.*affinity list: //p")
		# shellcheck disable=SC2046
		assert_eq "$want" "$(allowed_of n1 $(on n1 pgrep -x 'stage-keeper|stage-manager'))" "CPUs of the keeper"
		let_go "$id"
		job_done "$id"
	done
	let_go "$other" bob
	job_done "$other"
}

# --- code of the user's ---------------------------------------------------------------------------

# All kinds of processes that there are: nothing that is outside of the job's cgroups can be traced,
# and it is stagingd and the helpers of the keeper alone. Fails when image servers are not moved,
# and when a program is readable.
test_what_is_outside_of_the_job_cannot_be_traced() {
	local id

	need_fuse
	need_cgroup
	gate_close n1
	id=$(job_submit alice -N2 -w n1,n2 --ntasks-per-node=1 --stage-wait=no \
		--stage-data="m=$data/many.zstd.sqsh,g=/srv/pfs/gate/many.tar,d=$data/flat:ssd" <<-EOS
	stagectl wait m d && echo "two are there"
	$until_let_go
	EOS
	)
	job_wait_says "$id" "two are there"
	for _ in 1 2 3; do
		small_outside "$id" 20000
		assert_not grep -vE '^(stagingd|stage-helper) ' "$work/outside"
	done
	gate_open n1
	let_go "$id"
	job_done "$id"
	wait_until 10 job_nodes_clean "$id"
	assert_nodes_fine
}

# --- what datasets take ---------------------------------------------------------------------------

# Fails when a tar that is extracted keeps what was reserved in advance: 64 MiB more than it has.
test_an_extracted_tar_leaves_what_it_does_not_take() {
	local id

	mkdir "$work/small"
	head -c 8M /dev/urandom >"$work/first"
	head -c 62M /dev/urandom | split -b 5000 -a 4 - "$work/small/"
	tar -cf "$pfs/gate/small.tar" -C "$work" first -C small .
	head -c 150M /dev/urandom >"$pfs/gate/large"
	at_end "rm -f '$pfs/gate/small.tar' '$pfs/gate/large'"
	chmod 0644 "$pfs/gate/small.tar" "$pfs/gate/large"
	# The first member makes the estimate too low, so that more is reserved while it is
	# written. 110 MiB of pages and 150 MiB fit into 90 %; with what was reserved for the tar,
	# 143 MiB, they do not.
	id=$(job_submit alice -w n1 --mem=312 --stage-data="t=/srv/pfs/gate/small.tar:shm:method=extract" <<-'EOS'
	stagectl add l=/srv/pfs/gate/large:shm
	stagectl wait l && echo "both are there"
	stagectl status
	EOS
	)
	job_done "$id"
	assert_contains "$(job_output "$id")" "both are there"
	wait_until 10 job_nodes_clean "$id"
}

# Fails when a cgroup without a limit is taken for one that limits: no log said that --mem does not
# hold.
test_the_log_says_that_slurm_limits_no_memory() {
	local id out

	need_cgroup
	sed -i 's/^ConstrainRAMSpace=.*/ConstrainRAMSpace=no/' "$base/etc/slurm/cgroup.conf"
	at_end "sed -i 's/^ConstrainRAMSpace=.*/ConstrainRAMSpace=yes/' '$base/etc/slurm/cgroup.conf'; '$cluster' slurmd-restart n1"
	"$cluster" slurmd-restart n1
	id=$(job_submit alice -w n1 --mem=200 --stage-data="t=$data/flat:shm" <<<'stagectl log')
	job_done "$id"
	out="data in memory is (not charged to the job|not limited by the job's --mem: Slurm has set no limit)"
	assert_match "$(job_output "$id")" "$out"
	assert_match "$(grep "job=$id " "$base/node/n1/log/stage-data.log")" "$out"
	assert_match "$(on n1 "$prefix/bin/stagectl" doctor)" "ConstrainRAMSpace=no in the cgroup.conf of this node, and yes in what"
}

# Fails when the bytes that were wanted next are given for the size of the archive, which nobody
# knows.
test_an_archive_of_unknown_size_says_what_there_is_for_it() {
	local id

	mkdir "$work/zeros"
	head -c 320M /dev/zero | split -b 8M - "$work/zeros/"
	tar -C "$work/zeros" -czf "$pfs/gate/zeros.tar.gz" .
	at_end "rm -f '$pfs/gate/zeros.tar.gz'"
	chmod 0644 "$pfs/gate/zeros.tar.gz"
	id=$(job_submit alice -w n1 --mem=200 --stage-data="z=/srv/pfs/gate/zeros.tar.gz:shm" <<<'echo begun')
	job_failed "$id"
	assert_match "$(job_output "$id")" "its files need more than the 1[0-9.]+ MiB that memory has left for them"
	wait_until 10 job_nodes_clean "$id"
}
