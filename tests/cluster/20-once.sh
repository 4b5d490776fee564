# A dataset is staged once on each node, whatever the number of tasks and steps.

test_once_for_24_tasks_and_three_steps() {
	local out

	out=$(job_run alice -N3 --ntasks-per-node=2 --stage-data="t=$data/many.tar" <<-'EOS'
	for step in 1 2 3; do
		srun -n24 -N3 --overcommit bash -c 'echo "task $(hostname) $(stat -c %d:%i "$STAGE_DATA_PATH_T") \
			$(cat "$STAGE_DATA_PATH_T"/*/* | cksum)"'
	done
	srun -N3 -n3 bash -c 'echo "daemons $(hostname) $(pgrep -cx stagingd)"'
	EOS
	)
	assert_eq 72 "$(grep -c ^task <<<"$out")" "tasks that read it"
	assert_eq 3 "$(grep ^task <<<"$out" | sort -u | wc -l)" "different copies seen on three nodes"
	assert_eq "daemons n1 1 daemons n2 1 daemons n3 1" \
		"$(grep ^daemons <<<"$out" | sort | paste -sd' ')" "daemons"
	assert_eq 1 "$(grep ^task <<<"$out" | sed 's/.*:[0-9]* *//' | sort -u | wc -l)" "checksums"
}

# What a process has read is added to its parent's account when it is waited for, so the keeper's
# has the bytes of all workers. A worker that reads the archive a second time doubles it.
test_the_source_is_read_once_per_node() {
	local id node size rchar

	mkdir -p "$work/big"
	head -c 100M /dev/urandom >"$work/big/noise"
	tar -cf "$pfs/data/noise.tar" -C "$work" big
	at_end "rm -rf '$work/big' '$pfs/data/noise.tar'"
	size=$(stat -c %s "$pfs/data/noise.tar")
	id=$(job_submit alice -N3 --ntasks-per-node=2 --stage-data="t=$data/noise.tar" <<-'EOS'
	srun bash -c 'cat $STAGE_DATA_PATH_T/big/noise >/dev/null'
	echo staged
	sleep 100
	EOS
	)
	job_wait_says "$id" staged
	for node in n1 n2 n3; do
		rchar=$(on "$node" bash -c 'awk "/^rchar/ { print \$2 }" /proc/$(pgrep -x stage-keeper)/io')
		assert_le "$size" "$rchar" "bytes of the archive, bytes read on $node"
		assert_le "$rchar" $((size * 11 / 10)) "bytes read on $node, the archive and a tenth"
	done
	as_on alice ctl scancel "$id"
	wait_until 20 job_nodes_clean "$id"
}

test_the_same_variables_in_every_task() {
	local out

	out=$(job_run alice -N2 --ntasks-per-node=2 --stage-data="t=$data/flat" <<-'EOS'
	echo "$STAGE_DATA_DIR $STAGE_DATA_PATH_T $STAGE_DATA_NAMES $STAGE_DATA_SOCKET"
	srun -Q bash -c 'echo "$STAGE_DATA_DIR $STAGE_DATA_PATH_T $STAGE_DATA_NAMES $STAGE_DATA_SOCKET"'
	srun -Q --export=NONE /bin/bash -c 'echo "$STAGE_DATA_DIR $STAGE_DATA_PATH_T $STAGE_DATA_NAMES $STAGE_DATA_SOCKET"'
	EOS
	)
	assert_eq 1 "$(sort -u <<<"$out" | wc -l)" "different values in: $out"
	assert_match "$out" '^/.* /.*/t t /.*'
}
