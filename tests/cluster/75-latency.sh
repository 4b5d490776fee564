# How much longer a job takes that only mounts an image.

# Ready is when the link appears in the directory; the lock is the first file of the run directory.
readonly tell_latency='
born=$(stat -c %.W /run/stage-data/$SLURM_JOB_ID/lock)
[[ $born != 0* ]] || born=$(stat -c %.Y /run/stage-data/$SLURM_JOB_ID/lock)
echo "ready_ms $(bc <<<"($(stat -c %.Z $STAGE_DATA_DIR/m) - $born) * 1000 / 1")"'

readonly test_an_image_of_1_gb_is_ready_within_100_ms_alone=1
test_an_image_of_1_gb_is_ready_within_100_ms() {
	local times

	need_fuse
	"$here/../lib/data" big "$base.data/big.sqsh" 1024
	ln -f "$base.data/big.sqsh" "$pfs/data/big.sqsh"
	times=$(for _ in 1 2 3 4 5; do
		job_run alice --stage-data="m=$data/big.sqsh" <<<"$tell_latency"
	done | sed -n 's/^ready_ms //p' | sort -n)
	assert_le "$(sed -n 3p <<<"$times")" 100 \
		"ms from the start of the keeper to ready, median of $(paste -sd' ' <<<"$times")"
}

# best_of_5 COMMAND...: the least milliseconds it takes
best_of_5() {
	local i t0 ms best=1000000

	for i in 1 2 3 4 5; do
		t0=$(now_ms)
		"$@"
		ms=$(($(now_ms) - t0))
		((ms >= best)) || best=$ms
	done
	echo "$best"
}

readonly test_the_option_adds_less_than_half_a_second_to_a_short_job_alone=1
# By srun, which is given its node at once: the turns of the scheduler, by which batch jobs begin,
# are longer than what is measured here.
test_the_option_adds_less_than_half_a_second_to_a_short_job() {
	local without with

	without=$(best_of_5 as_on alice ctl srun -n1 true)
	with=$(best_of_5 as_on alice ctl srun -n1 --stage-data="m=$data/many.zstd.sqsh" true)
	echo "without $without ms, with a mount $with ms"
	assert_le "$with" $((without + 500)) "ms of a job with a mount"
}

# hooks_of_jobs NAME [SRUN OPTION...]: what is between our neighbours' hooks, in microseconds, of
# seven jobs one after another, into $work/NAME.PHASE
hooks_of_jobs() {
	local name=$1 id i phase

	shift
	for i in {1..7}; do
		id=$(as_on alice ctl srun -n1 -w n1 "$@" sh -c 'echo $SLURM_JOB_ID')
		echo "$id" >>"$work/jobs"
		wait_until 20 on n1 test -s "/run/slow-hooks/$id.epilog.over"
		for phase in prolog extern epilog; do
			on n1 cat "/run/slow-hooks/$id.$phase.begun" "/run/slow-hooks/$id.$phase.over" |
				paste -sd' ' | awk '{ printf "%d\n", ($2 - $1) / 1000 }' >>"$work/$name.$phase"
		done
	done
}

# median FILE
median() {
	sort -n "$1" | awk '{ n[NR] = $1 } END { print n[int((NR + 1) / 2)] }'
}

readonly test_what_the_hooks_cost_alone=1 test_what_the_hooks_cost_seconds=300
# A job without the option beside the same hooks without us, one with it beside processes that do
# nothing. Fails when a hook of ours sleeps for 2 ms before it looks for the option, or for 100 ms
# when it has found it.
test_what_the_hooks_cost() {
	local conf=$base/etc/slurm/plugstack.conf phase t0 machine i

	mark_hooks quick
	cp "$conf" "$work/plugstack.with"
	sed -i '/stage_data/d' "$conf"
	hooks_of_jobs bare
	cp "$work/plugstack.with" "$conf"
	hooks_of_jobs without
	hooks_of_jobs with --stage-data="m=$data/many.zstd.sqsh"
	t0=$(now_ms)
	for i in {1..20}; do /bin/true; done
	machine=$(($(now_ms) - t0))
	for phase in prolog extern epilog; do
		echo "$phase: bare $(median "$work/bare.$phase") us, without the option $(median "$work/without.$phase")," \
			"with it $(median "$work/with.$phase"), 20 processes $machine ms" | tee -a "${STAGE_TEST_NUMBERS:-/dev/null}"
	done
	for phase in prolog extern epilog; do
		assert_le "$(median "$work/without.$phase")" $(($(median "$work/bare.$phase") + 1000)) \
			"us of the $phase of a job without the option"
	done
	assert_le $(($(median "$work/with.prolog") + $(median "$work/with.extern"))) $((1000 * (machine > 100 ? machine : 100))) \
		"us of prolog and extern step with the option"
}

readonly test_a_task_of_an_array_takes_no_longer_alone=1 test_a_task_of_an_array_takes_no_longer_seconds=300
# One after another, as the jobs that it is compared with; the least of seven each, for the machine
# may be busier now than then. Fails when a task waits for what other tasks do, or is jittered.
test_a_task_of_an_array_takes_no_longer() {
	local id i plain array

	for i in {1..7}; do
		job_run alice -n1 -w n1 --stage-data="m=$data/many.tar" <<<"$tell_latency"
	done | sed -n 's/^ready_ms //p' >"$work/plain"
	id=$(job_submit alice --array=1-7%1 -n1 -w n1 -o array.out --open-mode=append --stage-data="m=$data/many.tar" <<<"$tell_latency")
	at_end "rm -f '$pfs/home/alice/array.out'"
	wait_until 120 eval '[[ -z $(on ctl squeue -h -o %i) ]]'
	sed -n 's/^ready_ms //p' "$pfs/home/alice/array.out" >"$work/array"
	assert_eq 7 "$(wc -l <"$work/array")" "tasks"
	plain=$(sort -n "$work/plain" | head -n 1) array=$(sort -n "$work/array" | head -n 1)
	echo "ready after $plain ms, in an array $array ms" | tee -a "${STAGE_TEST_NUMBERS:-/dev/null}"
	assert_le "$array" $((plain + plain / 2 + 50)) "ms of a task of an array, of others $plain"
}
