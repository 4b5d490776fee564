# Once per node, however many tasks and steps there are, and never twice.
# shellcheck shell=bash

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

test_the_same_variables_in_every_task() {
	local out

	out=$(job_run alice -N2 --ntasks-per-node=2 --stage-data="t=$data/flat" <<-'EOS'
	echo "$STAGE_DATA_DIR $STAGE_DATA_PATH_T $STAGE_DATA_NAMES $STAGE_DATA_SOCKET"
	srun bash -c 'echo "$STAGE_DATA_DIR $STAGE_DATA_PATH_T $STAGE_DATA_NAMES $STAGE_DATA_SOCKET"'
	srun --export=NONE /bin/bash -c 'echo "$STAGE_DATA_DIR $STAGE_DATA_PATH_T $STAGE_DATA_NAMES $STAGE_DATA_SOCKET"'
	EOS
	)
	assert_eq 1 "$(sort -u <<<"$out" | wc -l)" "different values in: $out"
	assert_match "$out" '^/.* /.*/t t /.*'
}
