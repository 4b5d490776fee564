# Sources that only some nodes see: here those below /srv/local, which each node has for itself. Movers
# run on n3, jobs on n1, and nobody but n3 has the sources (the login node has where a test says so).
# shellcheck shell=bash

readonly far=/srv/local/far # on n3
readonly scratch=/srv/pfs/scratch

# mover_site [KEY=VALUE...]: for the source
mover_site() {
	{
		printf '%s\n' '[source far]' "Match=$far/**" VisibleOn=mover MoverPartition=mover \
			MoverTime=10m Tiers=scratch "$@"
		printf '%s\n' '[tier scratch]' Kind=shared "Path=$scratch/%u"
	} | site_conf
}

mover_begin() {
	mover_site "$@"
	on ctl scontrol create PartitionName=mover Nodes=n3 State=UP DefMemPerNode=300
	on n3 install -d -m 0755 -o 4001 -g 4001 "$far"
	install -d -m 0755 -o 4001 -g 4001 "$pfs/scratch" "$pfs/scratch/alice"
	at_end mover_end
}

mover_end() {
	on ctl scancel -u alice
	wait_until 30 jobs_are_over
	on ctl scontrol delete PartitionName=mover
	on n3 rm -rf "$far"
	on ctl rm -rf "$far"
	rm -rf "$pfs/scratch"
}

# far_file NAME MIB: of random bytes; prints its sum
far_file() {
	as_on alice n3 bash -c "head -c $(($2 * 1024 * 1024)) /dev/urandom >$far/$1 && md5sum <$far/$1"
}

# Makes what n3 has visible on the login node, with its times
far_shows_on_login() {
	on ctl rm -rf "$far"
	cp -a "$base/node/n3/local/far" "$base/node/ctl/local/far"
}

# mover_submit [SBATCH OPTION...] <SCRIPT: by stagectl; prints the job's id, and $work/said has the rest
mover_submit() {
	local id

	cat >"$pfs/home/alice/mover-job.sh"
	as alice stagectl submit --parsable --no-requeue -w n1 "$@" mover-job.sh >"$work/id" 2>"$work/said" || {
		cat "$work/said" >&2
		fail "submit failed"
	}
	rm "$pfs/home/alice/mover-job.sh"
	id=$(cat "$work/id")
	echo "$id" >>"$work/jobs"
	echo "$id"
}

# The mover that the last submission has named
mover_id() {
	sed -nE 's/.*mover job ([0-9]+).*/\1/p' "$work/said" | head -n 1 | tee -a "$work/jobs"
}

mover_log() {
	cat "$pfs/scratch/alice/stage-data/mover-$1.log"
}

# Red when the copy stays under the name of a partial one, or when the check never finds one whole.
test_a_mover_brings_what_the_job_reads_and_the_next_job_uses_its_copy() {
	local sum id

	mover_begin
	sum=$(far_file set.bin 20)
	as_on alice n3 bash -c "cd $far && for i in {1..4}; do echo \$i >p-\$i; done"
	id=$(mover_submit <<-JOB
	#!/bin/bash
	#SBATCH --stage-data=$far/set.bin
	#SBATCH --stage-data="some=$far/p-{2..3}"
	echo "[\$(md5sum <\$STAGE_DATA_PATH_SET)] \$(cd \$STAGE_DATA_PATH_SOME && echo * \$(cat *))"
	JOB
	)
	assert_match "$(cat "$work/said")" "set: mover job [0-9]+ \(partition mover\)"
	mover_id >/dev/null
	job_done "$id"
	assert_contains "$(job_output "$id")" "[$sum] p-2 p-3 2 3"
	assert_eq 1 "$(find "$pfs/scratch/alice/stage-data" -name set.bin -path '*/set-*' | wc -l)" "copies"
	id=$(mover_submit "--stage-data=again=$far/set.bin" <<-'JOB'
	#!/bin/bash
	#SBATCH --stage-data=/not/there
	echo "[$(md5sum <$STAGE_DATA_PATH_AGAIN)]"
	JOB
	)
	assert_contains "$(cat "$work/said")" "is whole, and used"
	assert_eq "" "$(mover_id)" "mover of the second job"
	job_done "$id"
	assert_contains "$(job_output "$id")" "[$sum]"
}

test_what_has_changed_is_moved_anew() {
	local id sum

	mover_begin
	far_file tree.kept 20 >/dev/null
	as_on alice n3 bash -c "mkdir $far/tree && mv $far/tree.kept $far/tree/kept && echo old >$far/tree/new"
	far_shows_on_login
	id=$(mover_submit "--stage-data=$far/tree" <<<$'#!/bin/bash\necho "[$(cat $STAGE_DATA_PATH_TREE/new)]"')
	mover_id >/dev/null
	job_done "$id"
	assert_contains "$(job_output "$id")" "[old]"
	as_on alice n3 bash -c "echo newer >$far/tree/new"
	far_shows_on_login
	id=$(mover_submit "--stage-data=$far/tree" <<<$'#!/bin/bash\necho "[$(cat $STAGE_DATA_PATH_TREE/new)]"')
	sum=$(mover_id)
	job_done "$id"
	assert_contains "$(job_output "$id")" "[newer]"
	assert_match "$(mover_log "$sum")" "20.* MiB were there already"
}

test_a_mover_that_fails_ends_the_job_with_its_reason() {
	local id mover

	mover_begin
	on n3 install -m 0600 /dev/null "$far/secret"
	id=$(mover_submit "--stage-data=$far/secret" <<<$'#!/bin/bash\necho begun')
	mover=$(mover_id)
	job_wait "$id"
	assert_eq CANCELLED "$(job_state "$id")" "end of the job"
	assert_lacks "$(job_output "$id")" begun
	assert_match "$(mover_log "$mover")" "$far/secret: open it: Permission denied"
	assert_match "$(on ctl scontrol show job "$id")" "Comment=mover job $mover: .*$far/secret: open it: Permission denied"
	assert_nodes_fine
}

# The rate makes a piece of 16 MiB take four seconds: time to join it, and to interrupt it in between.
test_movers_are_shared_and_an_interrupted_one_is_gone_on_with() {
	local first second mover sum journal

	mover_begin MaxRate=4M
	sum=$(far_file big.bin 96)
	first=$(mover_submit "--stage-data=$far/big.bin" <<<$'#!/bin/bash\necho begun')
	mover=$(mover_id)
	second=$(mover_submit "--stage-data=x=$far/big.bin" <<<$'#!/bin/bash\necho begun')
	assert_contains "$(cat "$work/said")" "x: mover job $mover is at it already"
	journal=$(find "$pfs/scratch/alice/stage-data" -maxdepth 1 -name 'big-*')/.stage-journal
	wait_until 60 grep -qs '^p ' "$journal"
	as_on alice ctl scancel "$mover"
	job_wait "$first"
	job_wait "$second"
	assert_eq "CANCELLED CANCELLED" "$(job_state "$first") $(job_state "$second")" "ends of the jobs"
	mover_site
	first=$(mover_submit "--stage-data=$far/big.bin" <<<$'#!/bin/bash\necho "[$(md5sum <$STAGE_DATA_PATH_BIG)]"')
	mover=$(mover_id)
	job_done "$first"
	assert_contains "$(job_output "$first")" "[$sum]"
	assert_match "$(mover_log "$mover")" " (16|32|48|64|80).* MiB were left by an interrupted mover"
}

test_without_such_sources_submit_is_sbatch() {
	local id

	id=$(mover_submit "--stage-data=t=$data/flat" <<<$'#!/bin/bash\nls $STAGE_DATA_PATH_T/00.bin')
	assert_eq "" "$(cat "$work/said")" "what stagectl says"
	job_done "$id"
}

# A slurm.conf for the login node's clients alone, with the filter as it is installed
filter_begin() {
	compgen -G '/usr/lib/*/slurm*/cli_filter_lua.so' >/dev/null || skip lua "Slurm here has no cli_filter/lua"
	at_end "rm -rf '$pfs/slurm'"
	cp -a "$base/etc/slurm" "$pfs/slurm"
	echo CliFilterPlugins=lua >>"$pfs/slurm/slurm.conf"
	cp "$prefix/share/doc/stage-data/examples/cli_filter.lua" "$pfs/slurm/"
}

# filtered CMD...: in alice's directory of examples, with that slurm.conf; what it says goes to $work/said
filtered() {
	as alice bash -c 'cd ~/mover-example && exec "$@"' - env SLURM_CONF=/srv/pfs/slurm/slurm.conf "$@" 2>"$work/said"
}

# Red when the value is not the filter's, or the job's dependency is not set. The script is read from
# stdin, where nobody can look at it twice.
test_plain_sbatch_has_movers_sent_for_by_a_filter() {
	local dir=$pfs/home/alice/mover-example id out

	mover_begin
	filter_begin
	at_end "rm -rf '$dir'"
	mkdir "$dir"
	cp "$here/../../docs/examples/mover.sh" "$dir"
	echo 'import os, sys; print("has", sum(len(f) for _, _, f in os.walk(sys.argv[1])))' >"$dir/train.py"
	chown -R 4001:4001 "$dir"
	as_on alice n3 bash -c "mkdir $far/archive && cp $data/many.tar $far/archive/images.tar"
	assert_not filtered sbatch --test-only --stage-data="x=$far/archive" mover.sh
	assert_contains "$(cat "$work/said")" "with --test-only nothing is moved"
	id=$(filtered env HOME=$far sbatch --parsable --no-requeue -w n1 --mem=200M --time=2 <"$dir/mover.sh") ||
		fail "$(cat "$work/said")"
	echo "$id" >>"$work/jobs"
	assert_match "$(cat "$work/said")" "images: mover job [0-9]+ \(partition mover\)"
	mover_id >/dev/null
	job_done "$id"
	assert_contains "$(job_output "$id")" "has 2000"
	id=$(filtered env STAGE_DATA="again=$far/archive/images.tar" \
		sbatch --parsable -w n1 --wrap='echo has $(find $STAGE_DATA_PATH_AGAIN -type f | wc -l)')
	echo "$id" >>"$work/jobs"
	assert_contains "$(cat "$work/said")" "again: its copy in $scratch/alice/stage-data/"
	assert_eq "" "$(mover_id)" "mover of the second job"
	job_done "$id"
	assert_contains "$(job_output "$id")" "has 2000"
}
