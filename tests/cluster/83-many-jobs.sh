# Many jobs, as many at once as the nodes have cores: when they are over the nodes are what they
# were, and Slurm's daemons have not grown. The runner looks for processes, mounts, files, sockets,
# FUSE connections, cgroups and memory; here are the numbers.
#
# STAGE_TEST_JOBS says how many in a row (60; a full run has 1,000).
# shellcheck shell=bash

readonly many_jobs=${STAGE_TEST_JOBS:-60}
readonly many_items="t=/srv/pfs/data/flat,m=/srv/pfs/data/many.zstd.sqsh,d=/srv/pfs/data/flat/00.bin:ssd"
readonly many_script='#!/bin/bash
[[ $(ls "$STAGE_DATA_PATH_T" | wc -l) == 10 && -r $STAGE_DATA_PATH_M/00/000 && -r $STAGE_DATA_PATH_D ]]'
readonly test_many_jobs_in_a_row_seconds=3000 test_an_array_of_100_seconds=400

# Slurm forgets a job soon, else slurmctld grows with all that it remembers.
forget_jobs_soon() {
	sed -i 's/^MinJobAge=.*/MinJobAge=2/' "$base/etc/slurm/slurm.conf"
	on ctl scontrol reconfigure
	at_end "sed -i 's/^MinJobAge=.*/MinJobAge=3600/' '$base/etc/slurm/slurm.conf'; on ctl scontrol reconfigure"
}

# A daemon makes another arena of its heap when two threads want memory at once, up to eight for
# each core, and of some 370 KiB in slurmd: how far it grows by that is chance. With one arena it
# grows by what is lost alone.
restart_with_one_arena() {
	at_end "'$cluster' restart"
	MALLOC_ARENA_MAX=1 "$cluster" restart
}

# A line of numbers for each daemon: name, private memory in KiB, descriptors, allocated memory in
# KiB. slurmd counts that by the library that the test cluster loads into it, and gives back first
# what it has free between: one block that stays can keep 250 KiB of free ones from the system, also
# with one arena. Of slurmctld, and without a compiler, there is no such count.
daemons() {
	local node name

	for node in ctl n1 n2 n3; do
		name=slurmd
		[[ $node != ctl ]] || name=slurmctld
		# shellcheck disable=SC2016
		on $node bash -c 'read -r pid </run/$1.pid
			if grep -q slurm-witness "/proc/$pid/maps"; then
				rm -f /run/memory-in-use
				touch /run/measure-memory
				for ((i = 0; i < 50; i++)); do
					scontrol show slurmd >/dev/null # for which it starts a thread
					[[ ! -e /run/memory-in-use ]] || break
				done
				use=$(cat /run/memory-in-use)
			fi
			echo "$2.$1 $(sed -nE "s/^Private_Dirty:\s*([0-9]+) kB/\1/p" "/proc/$pid/smaps_rollup") $(ls "/proc/$pid/fd" | wc -l) ${use:-0}"' \
			- $name $node
	done
}

cgroups_of_jobs() {
	local node

	for node in n1 n2 n3; do
		on $node bash -s cgroups '*' <"$lib/snapshot"
	done
}

no_jobs() {
	[[ -z $(on ctl squeue -h -o %i) ]]
}

# in_a_row COUNT [SCRIPT [OPTION...]]: submitted one after another; each must have ended well
in_a_row() {
	local ids

	(($# > 1)) || set -- "$1" "$many_script" --stage-data="$many_items"
	# shellcheck disable=SC2016
	as alice bash -c 'for ((i = 0; i < $1; i++)); do
			sbatch --parsable --no-requeue -n1 --mem=100 -o /srv/pfs/home/alice/many.out --open-mode=append \
				"${@:3}" <<<"$2; echo \"end \$? \$SLURM_JOB_ID\"" || echo "sbatch $?"
		done' - "$@" >"$work/ids"
	assert_eq "" "$(sed '/^[0-9]*$/d; 4q' "$work/ids")" "what sbatch said"
	wait_until 2400 no_jobs
	assert_eq "$1" "$(grep -c '^end 0 ' "$pfs/home/alice/many.out" || true)" \
		"jobs that ended well: $(sed '/^end 0 /d' "$pfs/home/alice/many.out" | tail -n 5)"
	rm "$pfs/home/alice/many.out"
}

# grown BEFORE AFTER: daemons that have more descriptors, or more memory: slurmd 200 KiB, or 100
# allocated. docs/faults.md has the growth in 1,000 jobs. Nothing of ours runs in slurmd for a job:
# Slurm calls the hooks in slurmstepd. The controller, into which nothing of ours is loaded, may
# keep the room of as many jobs as stood in its queue at once.
grown() {
	paste -d' ' "$1" "$2" | awk -v queue="$many_jobs" \
		'$6 > $2 + ($1 ~ /slurmctld/ ? 1024 + 15 * queue : 200) || $7 > $3 || $8 > $4 + 100'
}

# slurmctld forgets in its own time
wait_for_slurmctld() {
	local i

	for ((i = 0; i < 90; i++)); do
		daemons >"$work/after"
		[[ $(grown "$work/before" "$work/after") == *slurmctld* ]] || break
		sleep 1
	done
}

# growth_of_slurmctld BEFORE AFTER: by how many KiB it has grown
growth_of_slurmctld() {
	paste -d' ' "$1" "$2" | awk '$1 ~ /slurmctld/ { print $6 - $2 }'
}

# slurmctld of 24.11 grows by 3.5 MiB in 60 jobs, whatever they are. Where it has grown more than it
# may, as many jobs without the option are run with a new one, and must make it grow as much, to a
# MiB.
slurmctld_grows_without_us() {
	local ours plain

	ours=$(growth_of_slurmctld "$work/before" "$work/after")
	MALLOC_ARENA_MAX=1 "$cluster" restart
	in_a_row $((many_jobs / 4 < 60 ? many_jobs / 4 : 60)) $'#!/bin/bash\ntrue'
	sleep 4
	daemons >"$work/plain-before"
	in_a_row "$many_jobs" $'#!/bin/bash\ntrue'
	sleep 10
	daemons >"$work/plain-after"
	plain=$(growth_of_slurmctld "$work/plain-before" "$work/plain-after")
	[[ -n $ours && -n $plain ]] || fail "it is not known by how much slurmctld has grown: '$ours', '$plain'"
	echo "slurmctld has grown by $ours KiB, by $plain KiB without the option"
	assert_le "$ours" $((plain + 1024)) "KiB that slurmctld has grown"
}

# Fails when slurmd loses a descriptor, or 1,000 bytes of memory, with each thread that it starts
# (by the library that the test cluster loads into it), when a clean-up leaves its memory group, or
# leaves the tmpfs mounted and full.
test_many_jobs_in_a_row() {
	local shm_before shm_after t0 i

	restart_with_one_arena
	forget_jobs_soon
	in_a_row $((many_jobs / 4 < 60 ? many_jobs / 4 : 60)) # what is allocated once
	sleep 4
	shm_before=$(for node in n1 n2 n3; do shared_memory $node; done | paste -sd' ')
	daemons >"$work/before"
	t0=$(now_ms)
	in_a_row "$many_jobs"
	t0=$(($(now_ms) - t0))
	wait_until 15 eval '[[ -z $(cgroups_of_jobs) ]]'
	wait_for_slurmctld
	for ((i = 0; i < 3; i++)); do # what is lost is more with each job, what comes and goes is not
		[[ $(grown "$work/before" "$work/after") == *slurmd* ]] || break
		in_a_row 60
		wait_for_slurmctld
	done
	shm_after=$(for node in n1 n2 n3; do shared_memory $node; done | paste -sd' ')
	{
		echo "$many_jobs jobs in $t0 ms; shared memory (MiB) of the nodes before: $shm_before, after: $shm_after"
		paste -d' ' "$work/before" "$work/after" | awk \
			'{ print $1, "private KiB", $2, "->", $6, "descriptors", $3, "->", $7, "allocated KiB", $4, "->", $8 }'
	} | tee -a "${STAGE_TEST_NUMBERS:-/dev/null}"
	assert_eq "" "$(grown "$work/before" "$work/after" | grep -v slurmctld || true)" "daemons that have grown"
	# Not behind ||, where a command that fails does not end it.
	if [[ -n $(grown "$work/before" "$work/after") ]]; then
		slurmctld_grows_without_us
	fi
	for i in 1 2 3; do
		assert_le "$(cut -d' ' -f$i <<<"$shm_after")" $(($(cut -d' ' -f$i <<<"$shm_before") + 1)) "MiB of shared memory on n$i"
	done
	assert_nodes_fine
}

# From the keeper's beginning to the script's
readonly tell_task_ms='
born=$(stat -c %.W "/run/stage-data/$SLURM_JOB_ID/lock")
[[ $born != 0* ]] || born=$(stat -c %.Y "/run/stage-data/$SLURM_JOB_ID/lock")
echo "task_ms $(bc <<<"(${EPOCHREALTIME/,/.} - $born) * 1000 / 1")"'

# Fails when two jobs are taken for one, and when each waits for 16 s.
test_an_array_of_100() {
	local id t0 longest

	t0=$(now_ms)
	id=$(job_submit alice --array=1-100 -n1 --mem=100 -o array.out --open-mode=append --stage-data="$many_items" \
		<<<"$many_script; echo \"end \$? \$SLURM_ARRAY_TASK_ID \$STAGE_DATA_DIR\"$tell_task_ms")
	wait_until 300 no_jobs
	assert_eq 100 "$(grep -c '^end 0 ' "$pfs/home/alice/array.out" || true)" "tasks that ended well"
	assert_eq 100 "$(sed -n 's/^end 0 [0-9]* //p' "$pfs/home/alice/array.out" | sort -u | wc -l)" "directories"
	assert_eq 100 "$(grep -c '^task_ms ' "$pfs/home/alice/array.out" || true)" "times of tasks"
	longest=$(sed -n 's/^task_ms //p' "$pfs/home/alice/array.out" | sort -n | tail -n 1)
	assert_le "$longest" 15000 "ms until the last task's script begins"
	echo "array of 100 in $(($(now_ms) - t0)) ms, a task begins after at most $longest ms" | tee -a "${STAGE_TEST_NUMBERS:-/dev/null}"
	rm "$pfs/home/alice/array.out"
	wait_until 15 eval '[[ -z $(cgroups_of_jobs) ]]'
	assert_nodes_fine
}
