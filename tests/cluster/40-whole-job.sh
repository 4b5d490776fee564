# A job is ready when all of its nodes are ready, and fails when one of them fails.

test_the_script_begins_when_the_last_node_is_ready() {
	local id

	gate_close n2
	id=$(job_submit alice -N3 --stage-data="t=/srv/pfs/gate/many.tar" \
		<<<'echo begun; srun -N3 bash -c "ls \$STAGE_DATA_PATH_T | wc -l"')
	job_wait_running "$id"
	wait_until 10 on n3 test -e "/run/stage-data/$id"
	sleep 3
	assert_lacks "$(job_output "$id")" begun
	gate_open n2
	job_done "$id"
	assert_eq "begun 20 20 20" "$(job_output "$id" | grep -v stage-data: | paste -sd' ')" "output"
}

# Fails where the report does not compare the nodes by the time until they were ready.
test_the_report_marks_the_slowest_node() {
	local id out

	gate_close n2
	id=$(job_submit alice -N3 --stage-data="t=/srv/pfs/gate/many.tar" \
		<<<'stagectl report; stagectl report --svg report.svg && grep -c "slowest: n2<" report.svg')
	job_wait_running "$id"
	for node in n1 n3; do
		wait_until 20 on "$node" test -e "/run/stage-data/$id/t/data/t"
	done
	sleep 2 # the others must be faster
	gate_open n2
	job_done "$id"
	out=$(job_output "$id")
	assert_eq "n2" "$(sed -n 's/.* slowest: //p' <<<"$out")" "slowest node"
	assert_eq 1 "$(tail -n1 <<<"$out")" "slowest nodes in the image"
}

test_the_report_is_there_after_the_job() {
	local id out

	need_fuse
	at_end "rm -f '$pfs/home/alice/report.json'"
	id=$(job_submit alice -w n1 --stage-data="m=$data/tree.gzip.sqsh,t=$data/many.tar:shm" <<-'EOS'
	find "$STAGE_DATA_PATH_M/" -type f -exec cat {} + >/dev/null # the path is a link
	for ((i = 0; i < 100; i++)); do
		stagectl report --save ~/report.json && grep -q last_read_ms ~/report.json && break
		sleep 0.3
	done
	EOS
	)
	job_done "$id"
	out=$(as alice bash -c 'stagectl report --from ~/report.json')
	assert_match "$out" $'\n'"m +n1 +ready +[0-9.:]+( s)? +[0-9]+(:[0-9]+|[.][0-9] s) "
	assert_match "$out" $'\n'"t +n1 +ready +[0-9.:]+( s)? +- "
	assert_contains "$out" "Memory: datasets take "
	assert_contains "$out" " on n1. The limit is "
}

test_tasks_are_held_on_their_own_node() {
	local id

	gate_close n2
	id=$(job_submit alice -N2 -w n1,n2 --stage-wait=tasks --stage-data="t=/srv/pfs/gate/many.tar" <<-'EOS'
	echo begun
	srun -N2 bash -c 'echo "task $(hostname) $(ls $STAGE_DATA_PATH_T | wc -l)"'
	EOS
	)
	job_wait_says "$id" begun
	job_wait_says "$id" "task n1 20"
	sleep 1
	assert_lacks "$(job_output "$id")" "task n2"
	gate_open n2
	job_done "$id"
	assert_contains "$(job_output "$id")" "task n2 20"
}

test_nobody_is_held_with_wait_no() {
	local id

	gate_close n1
	id=$(job_submit alice -w n1 --stage-wait=no --stage-data="t=/srv/pfs/gate/many.tar" <<-'EOS'
	srun bash -c 'echo "there: $(ls $STAGE_DATA_PATH_T 2>/dev/null | wc -l)"'
	stagectl wait -q && srun bash -c 'echo "there: $(ls $STAGE_DATA_PATH_T | wc -l)"'
	EOS
	)
	job_wait_says "$id" "there: 0"
	gate_open n1
	job_done "$id"
	assert_contains "$(job_output "$id")" "there: 20"
}

# failure_on_n2 LIMITS ITEM REGEX: n2 has these limits; the job must fail for that reason
failure_on_n2() {
	local id out t0

	node_conf n2 <<<"$1"
	id=$(job_submit alice -N3 --stage-data="$2" <<<'echo begun')
	job_wait_running "$id"
	t0=$(now_ms)
	job_failed "$id" 30
	assert_le $(($(now_ms) - t0)) 6000 "ms from the start of the job to its end"
	out=$(job_output "$id")
	assert_lacks "$out" begun
	assert_match "$out" "$3"
	assert_contains "$out" n2
	assert_contains "$out" "t:"
	assert_nodes_fine
}

test_one_node_with_too_small_a_limit_fails_the_job() {
	failure_on_n2 $'[limits]\nMaxBytes=1M' "t=$data/many.tar" 'MiB|bytes|MaxBytes|M '
}

test_one_node_without_memory_fails_the_job() {
	failure_on_n2 $'[limits]\nKeepFreeMemory=900G' "t=$data/many.tar:shm" 'free|memory'
}

test_one_node_without_the_source_fails_the_job() {
	local id out

	on n2 mount -t tmpfs tmpfs /srv/pfs/gate
	at_end "on n2 umount /srv/pfs/gate"
	id=$(job_submit alice -N3 --stage-data="t=/srv/pfs/gate/many.tar" <<<'echo begun')
	job_failed "$id" 30
	out=$(job_output "$id")
	assert_lacks "$out" begun
	assert_match "$out" 'n2.*/srv/pfs/gate/many.tar|/srv/pfs/gate/many.tar.*n2'
	assert_contains "$out" "t:"
}

test_a_failure_is_told_within_5_seconds_while_other_nodes_work() {
	local id t0

	gate_close n1
	on n2 mount -t tmpfs tmpfs /srv/pfs/gate
	at_end "on n2 umount /srv/pfs/gate"
	id=$(job_submit alice -N3 --stage-data="t=/srv/pfs/gate/many.tar" <<<'echo begun')
	job_wait_running "$id"
	t0=$(now_ms)
	job_failed "$id" 30
	assert_le $(($(now_ms) - t0)) 6000 "ms from the start of the job to its end"
	assert_match "$(job_output "$id")" "stage-data: staging failed, so the script was not started: n2: t: "
	wait_until 10 job_nodes_clean "$id"

	# What the documents advise then
	id=$(job_submit alice -N3 --stage-wait=no --stage-data="t=/srv/pfs/gate/many.tar" \
		<<<'stagectl wait --all-nodes || { stagectl status --all-nodes; stagectl log --all-nodes; exit 1; }')
	job_failed "$id" 30
	assert_match "$(job_output "$id")" $'\n'"[0-9-]+T[0-9:.]+Z n2 job=$id ds=t .*many.tar"
	assert_match "$(job_output "$id")" $'\n'"[0-9-]+T[0-9:.]+Z n3 job=$id "
}

test_onfail_source_links_to_the_source() {
	local out

	node_conf n1 <<<$'[limits]\nMaxBytes=1K'
	out=$(job_run alice -w n1 --stage-data="t=$data/many::onfail=source" \
		<<<'readlink -f $STAGE_DATA_PATH_T; ls $STAGE_DATA_PATH_T | wc -l')
	assert_contains "$out" "$data/many"
	assert_contains "$out" 20
}

test_onfail_ignore_lets_the_job_begin() {
	local out

	node_conf n1 <<<$'[limits]\nMaxBytes=1K'
	out=$(job_run alice -w n1 --stage-data="t=$data/many.tar::onfail=ignore" \
		<<<'echo begun; ls $STAGE_DATA_PATH_T 2>/dev/null || echo nothing there')
	assert_contains "$out" "nothing there"
}
