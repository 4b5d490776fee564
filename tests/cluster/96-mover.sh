# Sources that only some nodes see. Here, these are below /srv/local, which is separate on each
# node. Movers run on n3, and jobs run on n1. Only n3 has the sources, unless a test puts them on
# the login node as well.

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

# mover_submit [SBATCH OPTION...] <SCRIPT: by stagectl; prints the job's id, and $work/said has the
# rest
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

# Red when the copy stays under the name of a partial one, when the check never finds one whole, or
# when more is moved than a pattern names.
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
	assert_eq "p-2 p-3" "$(find "$pfs/scratch/alice/stage-data" -name 'p-?' -printf '%f\n' | sort | paste -sd' ')" "what was moved"
	id=$(mover_submit "--stage-data=again=$far/set.bin" <<-'JOB'
	#!/bin/bash
	#SBATCH --stage-data=/not/there
	echo "[$(md5sum <$STAGE_DATA_PATH_AGAIN)]"
	JOB
	)
	assert_contains "$(cat "$work/said")" "is complete and is used"
	assert_eq "" "$(mover_id)" "mover of the second job"
	job_done "$id"
	assert_contains "$(job_output "$id")" "[$sum]"
}

# Red when the mover copies the links.
test_links_of_a_moved_source_are_followed() {
	local id hub=$far/hub

	mover_begin
	as_on alice n3 bash -c "mkdir -p $hub/blobs $hub/snapshots/c0ffee && echo weights >$hub/blobs/1a &&
		ln -s ../../blobs/1a $hub/snapshots/c0ffee/model.bin"
	id=$(mover_submit "--stage-data=model=$hub/snapshots/c0ffee::links=follow" <<-'JOB'
	#!/bin/bash
	echo "[$(cat $STAGE_DATA_PATH_MODEL/model.bin)] [$(find $STAGE_DATA_PATH_MODEL -type l)]"
	JOB
	)
	mover_id >"$work/mover"
	job_done "$id"
	assert_contains "$(job_output "$id")" "[weights] []"
	assert_contains "$(mover_log "$(cat "$work/mover")")" "1 link was copied as what it leads to"
	as_on alice n3 bash -c "mkdir $hub/snapshots/bad && ln -s /etc/passwd $hub/snapshots/bad"
	id=$(mover_submit "--stage-data=model=$hub/snapshots/bad::links=follow" <<<$'#!/bin/bash\n:')
	mover_id >"$work/mover"
	job_wait "$id"
	assert_contains "$(mover_log "$(cat "$work/mover")")" "passwd, which is /etc/passwd, is outside of what the site's rule allows"
}

# Fails when what the earlier copy has is copied once more.
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

# The job is in a hidden partition, of which squeue shows users nothing unless it is asked to. Fails
# when the reason is told to jobs that run, and not to those that wait, and without `squeue -a`.
test_a_mover_that_fails_ends_the_job_with_its_reason() {
	local id mover

	mover_begin
	on n3 install -m 0600 /dev/null "$far/secret"
	on ctl scontrol update PartitionName=other Hidden=YES
	at_end "on ctl scontrol update PartitionName=other Hidden=NO"
	id=$(mover_submit -p other "--stage-data=$far/secret" <<<$'#!/bin/bash\necho begun')
	mover=$(mover_id)
	job_wait "$id"
	assert_eq CANCELLED "$(job_state "$id")" "end of the job"
	assert_lacks "$(job_output "$id")" begun
	assert_match "$(mover_log "$mover")" "$far/secret: open it: Permission denied"
	assert_match "$(on ctl scontrol show job "$id")" "Comment=mover job $mover: $far/secret: open it: Permission denied"
	assert_nodes_fine
}

# why_it_ended ID: what the job that waited for a mover has as its comment
why_it_ended() {
	on ctl scontrol show job "$1" | sed -n 's/^ *Comment=//p'
}

# The rate makes a piece of 16 MiB take four seconds: time to join it, and to interrupt it in
# between; a second one meanwhile runs out of time. Red when the script of a mover is not woken by
# what Slurm sends to it alone.
test_movers_are_shared_and_an_interrupted_one_is_gone_on_with() {
	local first second mover sum journal late slow

	mover_begin MaxRate=4M
	far_file late.bin 512 >/dev/null
	late=$(mover_submit "--stage-data=$far/late.bin" <<<$'#!/bin/bash\necho begun')
	slow=$(mover_id)
	sum=$(far_file big.bin 96)
	first=$(mover_submit "--stage-data=$far/big.bin" <<<$'#!/bin/bash\necho begun')
	mover=$(mover_id)
	second=$(mover_submit "--stage-data=x=$far/big.bin" <<<$'#!/bin/bash\necho begun')
	assert_contains "$(cat "$work/said")" "x: mover job $mover copies it already"
	journal=$(find "$pfs/scratch/alice/stage-data" -maxdepth 1 -name 'big-*')/.stage-journal
	job_wait_running "$slow"
	on ctl scontrol update "JobId=$slow" EndTime=now+1
	wait_until 60 grep -qs '^p ' "$journal"
	as_on alice ctl scancel "$mover"
	job_wait "$first"
	assert_match "$(why_it_ended "$first")" "^mover job $mover: cancelled; submit"
	job_wait "$second"
	assert_eq "CANCELLED CANCELLED" "$(job_state "$first") $(job_state "$second")" "ends of the jobs"
	mover_site
	first=$(mover_submit "--stage-data=$far/big.bin" <<<$'#!/bin/bash\necho "[$(md5sum <$STAGE_DATA_PATH_BIG)]"')
	mover=$(mover_id)
	job_done "$first"
	assert_contains "$(job_output "$first")" "[$sum]"
	assert_match "$(mover_log "$mover")" " (16|32|48|64|80).* MiB were left by an interrupted mover"
	job_wait "$late" 90
	assert_eq "CANCELLED TIMEOUT" "$(job_state "$late") $(job_state "$slow")" "ends of the second pair"
	assert_match "$(why_it_ended "$late")" "^mover job $slow: ran out of time; submit"
}

# has_pieces N JOURNAL: at least so many
has_pieces() {
	local n

	n=$(grep -cs '^p ' "$2") || return 1
	((n >= $1))
}

# restarts MOVER N: it has begun again so many times
restarts() {
	[[ $(job_field "$1" Restarts) == "$2" ]] && job_is "$1" RUNNING
}

# The scheduler begins a job that it has requeued when two minutes are over, unless it is told to.
# In the second in which it was ended its node would not take it: the job's credential is revoked.
begins_again() {
	local mover=$1 n=$2

	wait_until 30 job_is "$mover" PENDING
	on ctl scontrol update "JobId=$mover" StartTime=now+2seconds
	wait_until 30 restarts "$mover" "$n"
}

# One mover, requeued by an administrator, by a node that goes down under it and by one that dies,
# each time between two pieces of its file. Red when a mover begins its file anew, or the job does
# not wait for the last; when a requeued one says that it was cancelled; when pieces are left out of
# what `list --movers` tells.
test_a_mover_that_is_requeued_goes_on_and_the_job_waits_for_it() {
	local id mover sum journal

	mover_begin MaxRate=8M
	sum=$(far_file big.bin 160)
	cp -a "$base/node/n3/local/far" "$base/node/n2/local/far"
	at_end "rm -rf '$base/node/n2/local/far'"
	id=$(mover_submit "--stage-data=$far/big.bin" <<<$'#!/bin/bash\necho "[$(md5sum <$STAGE_DATA_PATH_BIG)]"')
	mover=$(mover_id)
	journal=$(find "$pfs/scratch/alice/stage-data" -maxdepth 1 -name 'big-*')/.stage-journal
	wait_until 60 has_pieces 2 "$journal"
	on ctl scontrol requeue "$mover"
	begins_again "$mover" 1
	assert_eq "" "$(why_it_ended "$id")" "comment of the job"
	wait_until 60 has_pieces 4 "$journal"
	assert_match "$(as alice stagectl list --movers)" \
		"$mover +running for .* mover +[0-9.]+ MiB of 160 MiB \([1-9][0-9] %\) +$far/big.bin +$scratch/alice/stage-data/big-"
	assert_match "$(as alice stagectl explain "$far/big.bin")" "mover  job $mover, running for [^:]*:[0-9]* of at most 10:00: [0-9.]+ MiB of 160 MiB"
	on ctl scontrol update NodeName=n3 State=DOWN Reason=test
	begins_again "$mover" 2
	wait_until 60 has_pieces 6 "$journal"
	"$cluster" slurmd-kill9 n3
	on n3 bash -c 'kill -9 $(pidof slurmstepd slurm_script stage-mover)'
	spoil_cluster # nobody takes away the groups of what was killed so
	at_end '"$cluster" slurmd-start n3'
	on ctl scontrol update PartitionName=mover Nodes=n2
	on ctl scontrol update NodeName=n3 State=DOWN Reason=test
	begins_again "$mover" 3
	assert_eq PENDING "$(job_state "$id")" "the job meanwhile"
	job_done "$id"
	assert_contains "$(job_output "$id")" "[$sum]"
	assert_eq "COMPLETED 0:0" "$(job_state "$mover") $(job_exit "$mover")" "end of the mover"
	assert_match "$(mover_log "$mover")" " [1-9][0-9.]* MiB were left by an interrupted mover"
}

# Fails when a mover is sent for whatever the source is.
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

# filtered CMD...: in alice's directory of examples, with that slurm.conf; what it says goes to
# $work/said
filtered() {
	as alice bash -c 'cd ~/mover-example && exec "$@"' - env SLURM_CONF=/srv/pfs/slurm/slurm.conf "$@" 2>"$work/said"
}

# Red when the value is not the filter's, or the job's dependency is not set. The script is read
# from stdin, where nobody can look at it twice.
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
