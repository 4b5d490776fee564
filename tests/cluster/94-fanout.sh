# A source is read once for many nodes: the first node of the job reads it, and Slurm's sbcast
# copies it to all nodes.

# Archive, image and file of noise, 16 MiB each, behind a FUSE server on each node: what it has
# answered is what the node has read of the source. The archive has its index beside it. An image
# has whole seconds.
fan_source() {
	local node dir=$pfs/.fan.in

	need_fuse
	if [[ ! -e $pfs/.fan.sqsh ]]; then
		mkdir -p "$dir/x/d" "$dir/all"
		head -c 16M /dev/urandom >"$dir/all/file.bin"
		head -c 16M /dev/urandom >"$dir/x/d/noise"
		tar -cf "$dir/all/archive.tar" -C "$dir/x" d
		touch -d @1700000000 "$dir/all/archive.tar"
		on n1 "$(libexec)/stage-index" /srv/pfs/.fan.in/all/archive.tar{,.stage-index}
		mksquashfs "$dir/x" "$dir/all/image.sqsh" -noappend -no-progress -quiet -comp lz4 \
			-processors 1
		mksquashfs "$dir/all" "$pfs/.fan.sqsh" -noappend -no-progress -quiet -noI -noD -noF \
			-processors 1
		sha256sum <"$dir/x/d/noise" >"$pfs/.fan.noise"
		sha256sum <"$dir/all/file.bin" >"$pfs/.fan.file"
		rm -rf "$dir"
	fi
	mkdir -p "$pfs/fan"
	for node in ctl n1 n2 n3; do
		on $node squashfuse_ll -o allow_other,ro /srv/pfs/.fan.sqsh /srv/pfs/fan
		at_end "on $node umount /srv/pfs/fan"
	done
}

# Bytes that a node has read of the source so far
fan_read() {
	# shellcheck disable=SC2016
	on "$1" bash -c 'awk "/^wchar/ { print \$2 }" "/proc/$(pgrep -f "^squashfuse_ll .*fan")/io"'
}

fan_conf() {
	site_conf <<-CONF
	[limits]
	StallTimeout=${3:-60s}
	[fanout]
	Mode=sbcast
	MinNodes=$1
	Program=${2:-sbcast}
	CONF
}

readonly fan_items=a=/srv/pfs/fan/archive.tar,i=/srv/pfs/fan/image.sqsh:shm,f=/srv/pfs/fan/file.bin

# A job that tells the sums of what every node has
fan_sums() {
	cat <<-'EOS'
	srun bash -c 'echo "a $(sha256sum <$STAGE_DATA_PATH_A/d/noise)"
		[[ ! $STAGE_DATA_PATH_I ]] || echo "i $(sha256sum <$STAGE_DATA_PATH_I/d/noise)"
		[[ ! $STAGE_DATA_PATH_F ]] || echo "f $(sha256sum <$STAGE_DATA_PATH_F)"'
	for name in $STAGE_DATA_NAMES; do stagectl explain $name; done
	EOS
}

# assert_archive OUTPUT NODES
assert_archive() {
	assert_eq "$2" "$(grep -c "^a $(cat "$pfs/.fan.noise")" <<<"$1")" "nodes that have the archive"
}

# assert_sums OUTPUT NODES
assert_sums() {
	local n=$2

	assert_archive "$1" "$n"
	assert_eq "$n" "$(grep -c "^i $(cat "$pfs/.fan.noise")" <<<"$1")" "nodes that have the image"
	assert_eq "$n" "$(grep -c "^f $(cat "$pfs/.fan.file")" <<<"$1")" "nodes that have the file"
}

# With Mode=off the second and the third node read as much as the first.
# Fails when the other nodes read for themselves.
test_three_nodes_read_as_much_as_one() {
	local id out node before=() size=$((48 << 20)) first others

	fan_source
	fan_conf 2
	for node in n1 n2 n3; do before+=("$(fan_read $node)"); done
	out=$(job_run alice -N3 --ntasks-per-node=1 --mem=1000 --stage-data="$fan_items" < <(fan_sums))
	assert_sums "$out" 3
	assert_eq 3 "$(grep -c 'read once, by the first of 3 nodes' <<<"$out")" "datasets read once in: $out"
	first=$(($(fan_read n1) - before[0]))
	others=$(($(fan_read n2) - before[1] + $(fan_read n3) - before[2]))
	assert_le "$size" "$first" "bytes of the source, bytes the first node read"
	assert_le "$((first + others))" $((size * 12 / 10)) "bytes that three nodes read"
}

# Fails when the copy of what came has the time at which it was copied: the index is of another
# archive then.
test_an_archive_that_was_passed_on_is_mounted_by_its_index() {
	local out

	fan_source
	fan_conf 2
	out=$(job_run alice -N2 --ntasks-per-node=1 --mem=1000 \
		--stage-data="a=/srv/pfs/fan/archive.tar:shm:method=mount" < <(fan_sums))
	assert_archive "$out" 2
	assert_contains "$out" "read once, by the first of 2 nodes"
	assert_contains "$out" "by the index beside the archive"
}

# sbcast runs as the user where the job's limits are not: who could trace it would have it do there
# what he likes. Fails when the program itself is executed, which all may read.
test_nobody_traces_what_is_outside_of_the_jobs_limits() {
	local out looker

	fan_source
	fan_conf 2
	# shellcheck disable=SC2016
	as_on alice n1 bash -c 'end=$((SECONDS + 40))
		until [[ -e /srv/pfs/fan.over ]] || ((SECONDS > end)); do
			for p in $(pgrep -u alice -f "^sbcast --force"); do
				cat "/proc/$p/maps" 2>&1 >/dev/null | grep -q "Permission denied" && echo denied
				[[ ! $(cat "/proc/$p/maps" 2>/dev/null) ]] || echo open
			done
		done' >"$work/looked" &
	looker=$!
	at_end "rm -f '$pfs/fan.over'"
	out=$(job_run alice -N3 --ntasks-per-node=1 --mem=1000 --stage-data="$fan_items" < <(fan_sums))
	touch "$pfs/fan.over"
	wait "$looker"
	assert_sums "$out" 3
	assert_eq 3 "$(grep -c 'read once, by the first of 3 nodes' <<<"$out")" "datasets read once in: $out"
	assert_eq denied "$(sort -u "$work/looked")" "what a look at sbcast comes to"
}

# Fails when MinNodes= is not asked.
test_below_min_nodes_each_reads() {
	local out

	fan_source
	fan_conf 3
	out=$(job_run alice -N2 --ntasks-per-node=1 --mem=1000 --stage-data="$fan_items" < <(fan_sums))
	assert_sums "$out" 2
	assert_eq 3 "$(grep -c 'each node reads it: the job has 2 nodes, MinNodes is 3' <<<"$out")" \
		"datasets that each node reads in: $out"
}

# A program in place of sbcast: the function of that name, which gets the arguments
fake_sbcast() {
	cat >"$pfs/sbcast" <<-EOS
	#!/bin/bash
	$1
	EOS
	chmod 755 "$pfs/sbcast"
	at_end "rm -f '$pfs/sbcast' '$pfs/sbcast.called'"
	: >"$pfs/sbcast.called"
	chmod 666 "$pfs/sbcast.called"
}

# The notes arrive, and the file does not.
readonly fan_stuck='[[ $3 == */data ]] || exec sbcast "$@"
echo stuck >>/srv/pfs/sbcast.called
exec sleep 1000'

# Fails when what sbcast says is not passed on.
test_sbcast_that_fails_costs_nothing_but_time() {
	local out

	fan_source
	fake_sbcast 'echo "sbcast: error: no such thing today" >&2; exit 1'
	fan_conf 2 /srv/pfs/sbcast 9s
	out=$(job_run alice -N3 --ntasks-per-node=1 --stage-data="a=/srv/pfs/fan/archive.tar" < <(fan_sums))
	assert_archive "$out" 3
	assert_contains "$out" "this one reads for itself: sbcast: error: no such thing today"
	fan_conf 2 /nowhere/sbcast 9s
	out=$(job_run alice -N2 --ntasks-per-node=1 --stage-data="a=/srv/pfs/fan/archive.tar" < <(fan_sums))
	assert_archive "$out" 2
	assert_contains "$out" "this one reads for itself: /nowhere/sbcast: No such file"
}

is_stuck() {
	grep -q stuck "$pfs/sbcast.called"
}

# Without patience of their own the others would wait until StallTimeout, and fail.
# Fails when they have no end of patience.
test_the_others_read_when_the_first_nodes_worker_dies() {
	local id

	fan_source
	fake_sbcast "$fan_stuck"
	fan_conf 2 /srv/pfs/sbcast 24s
	id=$(job_submit alice -N3 --ntasks-per-node=1 --mem=1000 --stage-wait=no \
		--stage-data="a=/srv/pfs/fan/archive.tar" <<-'EOS'
	srun --kill-on-bad-exit=0 bash -c 'stagectl wait -q; r=$?; echo "$(hostname) ended with $r"
		[[ $(hostname) == n1 ]] || echo "a $(sha256sum <$STAGE_DATA_PATH_A/d/noise)"'
	exit 0
	EOS
	)
	wait_until 30 is_stuck
	on n1 bash -c 'kill -KILL $(pgrep -x stage-worker)'
	job_done "$id"
	assert_contains "$(job_output "$id")" "n1 ended with 1"
	assert_contains "$(job_output "$id")" "n2 ended with 0"
	assert_contains "$(job_output "$id")" "n3 ended with 0"
	assert_archive "$(job_output "$id")" 2
}

no_sbcast_on_n1() {
	! on n1 pgrep -x stage-broadcast >/dev/null && ! on n1 pgrep -f '^sleep 1000$' >/dev/null
}

# First one dataset of a job that goes on, then the job. Of what stage-broadcast started, the first
# is left where it does not end with the worker. Fails when sbcast does not end with the worker.
test_cancelled_in_the_middle_leaves_nothing() {
	local id

	fan_source
	fake_sbcast "$fan_stuck"
	fan_conf 2 /srv/pfs/sbcast
	id=$(job_submit alice -N3 --mem=1000 --stage-wait=no \
		--stage-data="a=/srv/pfs/fan/archive.tar,f=/srv/pfs/fan/file.bin" <<-'EOS'
	until [[ $(grep -c stuck /srv/pfs/sbcast.called) == 2 ]]; do sleep 0.1; done
	stagectl release a && stagectl release f && echo gone from n1
	sleep 100
	EOS
	)
	job_wait_says "$id" "gone from n1" 40
	wait_until 10 no_sbcast_on_n1
	assert_eq "" "$(on n1 ls "/run/stage-data/$id/t/.stage/tmp")" "what is left of them"
	as_on alice ctl scancel "$id"
	wait_until 20 job_nodes_clean "$id"
}
