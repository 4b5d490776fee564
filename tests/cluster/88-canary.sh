# What an administrator relies on during a trial: limits are respected, nodes without the plugin do
# no harm, and the log reports what happens.

set_limit() {
	sed -i "s/^\[$1\]/&\n$2/" "$base/etc/stage-data/stage-data.conf"
}

# Fails when one open partition of several is enough: Slurm may start the job in the other one.
test_a_job_that_may_start_elsewhere_passes_no_canary() {
	local out partitions

	set_limit daemon Partitions=main
	for partitions in main,other other,main; do
		out=$(job_refused alice -p $partitions --stage-data="t=$data/flat" <<<true)
		assert_contains "$out" "may start in partition other, which has no staging"
		assert_one_sentence "$out"
	done
	out=$(job_refused alice -p main -p other --stage-data="t=$data/flat" <<<true)
	assert_contains "$out" "partition other has no staging"
	job_run alice --stage-data="t=$data/flat" <<<'test -e $STAGE_DATA_PATH_T/00.bin'
	sed -i 's/^Partitions=main/Partitions=other/' "$base/etc/stage-data/stage-data.conf"
	out=$(job_refused alice --stage-data="t=$data/flat" --wrap=true </dev/null)
	assert_contains "$out" "the job goes to the default partition main, which has no staging; submit with \`-p other\`"
	assert_one_sentence "$out"
	# a script that nobody but sbatch can read may name it
	printf '#!/bin/bash\n#SBATCH -p other\ntrue\n' | cat | as alice sbatch --test-only --stage-data="t=$data/flat"
	job_run alice -p other --stage-data="t=$data/flat" <<<'test -e $STAGE_DATA_PATH_T/00.bin'
	sed -i 's/^Partitions=other/Partitions=main/' "$base/etc/stage-data/stage-data.conf"
	job_run alice -p other -p main --stage-data="t=$data/flat" <<<'test -e $STAGE_DATA_PATH_T/00.bin'
}

# Fails when a tar's size counts as unknown until it is written: it was written to memory, then to
# disk.
test_what_is_larger_than_the_limit_is_not_begun() {
	local id out

	set_limit "source pfs" MaxBytes=20M
	mkdir "$pfs/large"
	at_end "rm -rf '$pfs/large' '$pfs/large.tar'"
	head -c 38M /dev/urandom | split -b 32K -a 4 - "$pfs/large/"
	tar -C "$pfs/large" -cf "$pfs/large.tar" .
	chmod 0644 "$pfs/large.tar"
	id=$(job_submit alice -w n1 --stage-data="l=/srv/pfs/large.tar" <<<'echo begun')
	job_failed "$id"
	out=$(job_output "$id")
	assert_lacks "$out" begun
	assert_match "$out" "takes at least 3[0-9.]* MiB, the limit for one dataset is 20(\.0)? MiB"
	assert_one_sentence "$out"
	assert_contains "$(grep "job=$id " "$base/node/n1/log/stage-data.log")" " bytes=0 "
}

# Fails when another tier is tried with what no tier may have.
test_a_limit_is_the_same_in_every_tier() {
	local id

	set_limit "source pfs" MaxBytes=20M
	mkdir "$pfs/zeros"
	at_end "rm -rf '$pfs/zeros' '$pfs/zeros.tar.gz'"
	head -c 38M /dev/zero | split -b 64K -a 4 - "$pfs/zeros/"
	tar -C "$pfs/zeros" -czf "$pfs/zeros.tar.gz" .
	chmod 0644 "$pfs/zeros.tar.gz"
	id=$(job_submit alice -w n1 --stage-data="z=/srv/pfs/zeros.tar.gz" <<<'echo begun')
	job_failed "$id"
	assert_contains "$(job_output "$id")" "larger than the limit of 20.0 MiB for one dataset"
	assert_lacks "$(grep "job=$id " "$base/node/n1/log/stage-data.log")" "planning again"
}

# without_plugin NODE: its slurmd, and the steps there, find no plugin, as before an installation
# reaches it
without_plugin() {
	on "$1" bash -c 'echo >/run/no-plugin && mount --bind /run/no-plugin /etc/slurm/plugstack.conf'
	at_end "on $1 umount /etc/slurm/plugstack.conf; on $1 rm -f /run/no-plugin; '$cluster' slurmd-restart $1"
	restart_slurmd "$1"
}

readonly not_staged=/run/stage-data/NOT-STAGED-ON-THIS-NODE

# Fails when the variables are empty there: a script reads nothing, from its own directory, and ends
# well.
test_a_node_without_the_plugin_is_no_silent_one() {
	local id out

	without_plugin n2
	out=$(job_run alice -w n2 --stage-data="t=$data/flat,s=$data/flat/0*" <<-'JOB'
	echo "dir $STAGE_DATA_DIR names $STAGE_DATA_NAMES list $STAGE_DATA_LIST_S"
	cat "$STAGE_DATA_PATH_T/00.bin" 2>&1
	stagectl wait 2>&1 || echo "wait $?"
	stagectl path t 2>&1 || echo "path $?"
	eval "$(stagectl env)" 2>&1 || true
	stagectl env --apptainer 2>&1 || echo "env $?"
	srun sh -c 'echo "step $STAGE_DATA_PATH_T"'
	JOB
	)
	assert_contains "$out" "dir $not_staged names t s list $not_staged/list.s"
	assert_contains "$out" "$not_staged/t/00.bin: No such file"
	assert_contains "$out" "step $not_staged/t"
	assert_match "$out" "slurmd on n2 has not loaded the plugin.*restart slurmd.*wait 5"
	assert_match "$out" "path 5.*slurmd on n2 has not loaded.*env 5"

	id=$(job_submit alice -w n1,n2 -N2 --stage-data="t=$data/flat" <<<'echo begun')
	job_failed "$id"
	out=$(job_output "$id")
	assert_lacks "$out" begun
	assert_match "$out" "n2: no staging here: slurmd on n2 has not loaded the plugin"
	assert_one_sentence "$out"

	out=$(job_run alice -w n1,n2 -N2 --stage-wait=no --stage-data="t=$data/flat" <<-'JOB'
	echo "script $STAGE_DATA_PATH_T"
	srun -N2 sh -c 'echo "$SLURMD_NODENAME $STAGE_DATA_PATH_T"'
	JOB
	)
	assert_match "$out" "script /run/stage-data/[0-9]+/t/data/t"
	assert_match "$out" "n1 /run/stage-data/[0-9]+/t/data/t"
	assert_contains "$out" "n2 $not_staged/t"
	assert_nodes_fine
}

# Fails when the documents say more than is so: nobody holds a script whose own node lacks the
# plugin.
test_a_script_on_a_node_without_the_plugin_is_not_held() {
	local id out

	without_plugin n1
	id=$(job_submit alice -w n1,n2 -N2 --stage-data="t=$data/flat" <<-'JOB'
	echo "begun on $(hostname) with $STAGE_DATA_PATH_T"
	cat "$STAGE_DATA_PATH_T/00.bin" >/dev/null || echo "nothing to read"
	stagectl wait --all-nodes || echo "wait $?"
	JOB
	)
	job_wait "$id"
	out=$(job_output "$id")
	assert_contains "$out" "begun on n1 with $not_staged/t"
	assert_contains "$out" "nothing to read"
	assert_match "$out" "slurmd on n1 has not loaded the plugin.*wait [1-9]"
	wait_until 10 job_nodes_clean "$id"
	assert_nodes_fine
}

# reaped NODE ID: the timer's command has been called, and nothing of the job is there
reaped() {
	on "$1" "$prefix/libexec/stage-data/stage-keeper" reap || true
	on "$1" test ! -e "/run/stage-data/$2"
}

# A step reads plugstack.conf again, slurmd does not. From 24.05 on, the extern step cleans up at
# the end of the job. Fails when such a job is not staged, or its data is not removed.
test_a_slurmd_that_was_not_restarted_leaves_the_data_to_the_timer() {
	local id

	without_plugin n1
	on n1 bash -c "echo '$(<"$base/etc/slurm/plugstack.conf")' >/run/no-plugin"
	id=$(job_submit alice -w n1 --stage-data="t=$data/flat" <<<'test -s "$STAGE_DATA_PATH_T/00.bin" && echo "staged all the same"')
	job_done "$id"
	assert_contains "$(job_output "$id")" "staged all the same"
	if knows_run_in_job; then
		wait_until 10 job_nodes_clean "$id"
		return
	fi
	on n1 test -e "/run/stage-data/$id"
	wait_until 60 reaped n1 "$id"
}

# Fails when a node that Slurm can't start a step on is not named.
test_nodes_that_do_not_answer_are_named() {
	local id out

	without_plugin n2
	on n2 bash -c "touch /run/none && mount --bind /run/none '$prefix/bin/stagectl'"
	at_end "on n2 umount '$prefix/bin/stagectl'; on n2 rm -f /run/none"
	id=$(job_submit alice -w n1,n2 -N2 --stage-data="t=$data/flat" <<<'echo begun')
	job_failed "$id"
	out=$(job_output "$id")
	assert_lacks "$out" begun
	# srun ends n1's task with n2's, which may have answered or not
	assert_match "$out" "before [12] of 2 nodes had answered: (n1, )?n2; look whether they are up"
}

readonly shows_variables='env | grep "^STAGE_DATA" | sort | sed "s/^/$SLURMD_NODENAME $SLURM_PROCID /"'

# Fails when a way to start something keeps the path that the client has set.
test_a_node_with_the_plugin_replaces_all_variables() {
	local out

	out=$(
		as alice srun -Q -N2 --stage-data="t=$data/flat,s=$data/flat/0*" sh -c "$shows_variables"
		as alice salloc -Q -N1 --stage-data="t=$data/flat" bash -c "srun -Q sh -c '$shows_variables'" 2>&1
		job_run alice -N2 --export=NONE --stage-data="t=$data/flat" <<<"$shows_variables; srun -N2 /bin/sh -c '$shows_variables'
			srun -N2 --export=NONE /bin/sh -c '$shows_variables'"
		job_run alice -N1 --stage-wait=no --stage-data="t=$data/flat" <<<"$shows_variables; srun sh -c '$shows_variables'"
		job_run alice <<-JOB
		#!/bin/bash
		#SBATCH -N1 -n1 --stage-data=a=$data/flat
		#SBATCH hetjob
		#SBATCH -N1 -n1 --stage-data=b=$data/flat
		$shows_variables
		srun --het-group=0,1 sh -c '$shows_variables'
		JOB
	)
	assert_lacks "$out" NOT-STAGED
	assert_match "$out" "n[123] 1 STAGE_DATA_LIST_S=/run/stage-data/[0-9]+/"
	assert_match "$out" "n[123] 0 STAGE_DATA_PATH_A=/run/stage-data/[0-9]+/"
	assert_match "$out" "n[123] [01] STAGE_DATA_PATH_B=/run/stage-data/[0-9]+/"
}

# Fails when a job that is submitted in a job keeps variables of the outer one.
test_a_job_in_a_job_has_its_own_variables() {
	local id out

	at_end "rm -f '$pfs'/home/alice/inner.*"
	out=$(job_run alice -w n1 --stage-data="t=$data/flat" <<-'JOB'
	sbatch --parsable -w n2 -o inner.none --wrap 'env | grep ^STAGE_DATA; echo end'
	sbatch --parsable -w n3 -o inner.own --stage-data=u=/srv/pfs/data/flat --wrap 'env | grep ^STAGE_DATA; echo end'
	JOB
	)
	for id in $(grep -oE '^[0-9]+$' <<<"$out"); do
		job_done "$id"
	done
	assert_eq end "$(cat "$pfs/home/alice/inner.none")" "variables of a job without datasets"
	assert_match "$(cat "$pfs/home/alice/inner.own")" 'STAGE_DATA_PATH_U=/run/stage-data/[0-9]+/'
	assert_lacks "$(cat "$pfs/home/alice/inner.own")" PATH_T
}

# Fails when the line of a dataset's end does not tell by which rule it came, or counts an image as
# read that is mounted.
test_the_log_tells_what_was_read_by_which_rule() {
	local log id

	job_run alice -w n1 --stage-data="m=$data/many.zstd.sqsh,l=$data/flat:source,c=$data/flat" <<<'true' >/dev/null
	id=$(tail -n 1 "$work/jobs")
	log=$(grep "job=$id .* end user=alice result=ready" "$base/node/n1/log/stage-data.log")
	assert_match "$log" "ds=m end .* method=mount tier=source bytes=0 .* rule=pfs source=$data/many.zstd.sqsh"
	assert_match "$log" "ds=l end .* method=link tier=source bytes=0 .* rule=pfs source=$data/flat"
	assert_match "$log" "ds=c end .* method=copy tier=shm bytes=[1-9][0-9]* .* rule=pfs source=$data/flat"
}

# Fails when a file in conf.d can't narrow a rule of the main file.
test_a_rule_is_narrowed_for_a_trial() {
	local out

	site_conf <<-'CONF'
	[source pfs]
	AllowUsers=alice
	CONF
	assert on ctl "$prefix/bin/stagectl" check-config
	job_run alice --stage-data="t=$data/flat" <<<'test -e $STAGE_DATA_PATH_T/00.bin'
	out=$(job_refused bob --stage-data="t=$data/flat" <<<true)
	assert_contains "$out" "rule pfs of the site does not admit user bob"
}

# The shell of salloc is on the login node, where its variables name no data. Fails when the recipe
# of the manual page does not give them.
test_the_shell_of_salloc_gets_its_paths_from_a_node() {
	local out

	# shellcheck disable=SC2016
	out=$(as alice salloc -Q -N1 --stage-data="t=$data/flat" bash -c '
		srun -Q stagectl wait -q
		eval "$(srun -Q -N1 -n1 stagectl env)"
		echo "path $STAGE_DATA_PATH_T"
		srun -Q cat $STAGE_DATA_PATH_T/00.bin | cksum' 2>&1)
	assert_match "$out" "path /run/stage-data/[0-9]+/t/data/t"
	assert_contains "$out" "$(cksum <"$pfs/data/flat/00.bin")"
}
