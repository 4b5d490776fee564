# The site's settings have effect at once and without a restart.

switched_off() {
	local out

	out=$(job_refused alice --stage-data="t=$data/flat" <<<true)
	assert_match "$out" "$1"
	assert_one_sentence "$out"
	assert_eq fine "$(job_run alice <<<'echo fine')" "a job without the option"
}

set_key() {
	sed -i "s/^\[daemon\]/&\n$1/" "$base/etc/stage-data/stage-data.conf"
}

# Fails when Enabled= is not asked.
test_enabled_no() { set_key Enabled=no; switched_off 'disabled|off|switched|not enabled'; }

# Fails when the file `disabled` is not looked at.
test_the_file_disabled_tells_its_text() {
	echo "broken switch, back on Monday" >"$base/etc/stage-data/disabled"
	switched_off "back on Monday"
	chmod 600 "$base/etc/stage-data/disabled" # written with a umask of 077
	switched_off "switched off by the site; ask its administrators"
}

# Fails when a task that is not begun doesn't say why.
test_switched_off_on_the_node_the_job_fails_with_a_sentence() {
	local id

	node_conf n1 <<<$'[daemon]\nEnabled=no'
	id=$(job_submit alice -w n1 --stage-data="t=$data/flat" <<<'echo begun')
	job_failed "$id"
	assert_lacks "$(job_output "$id")" begun
	assert_one_sentence "$(job_output "$id")"
	assert_nodes_fine
}

# Fails when the epilog does not clean up.
test_switched_off_while_a_job_runs_it_finishes_and_is_cleaned() {
	local id

	id=$(job_submit alice -N2 --stage-data="t=$data/many.tar,m=$data/many.zstd.sqsh" \
		<<<'echo begun; sleep 2; srun -N2 ls $STAGE_DATA_PATH_T $STAGE_DATA_PATH_M >/dev/null && echo read')
	job_wait_says "$id" begun
	set_key Enabled=no
	job_done "$id"
	assert_contains "$(job_output "$id")" read
	wait_until 10 job_nodes_clean "$id"
}

# Fails when AllowUsers= is not asked.
test_only_allowed_users() {
	set_key AllowUsers=bob
	switched_off alice
	assert_contains "$(job_run bob --stage-data="t=$data/many.tar" <<<'ls $STAGE_DATA_PATH_T | wc -l')" 20
}

# Fails when Partitions= is not asked.
test_only_in_the_partitions() {
	local out

	set_key Partitions=other
	out=$(job_refused alice -p main --stage-data="t=$data/flat" <<<true)
	assert_match "$out" 'partition'
	assert_contains "$(job_run alice -p other --stage-data="t=$data/many.tar" <<<'ls $STAGE_DATA_PATH_T | wc -l')" 20
}

# Fails when a source's AllowUsers= is not asked.
test_a_source_for_some_users_only() {
	local out

	cat >"$base/etc/stage-data/stage-data.conf" <<-'CONF'
	[limits]
	KeepFreeMemory=64M
	[source bobs]
	Match=/srv/pfs/data/**
	AllowUsers=bob
	CONF
	out=$(job_refused alice --stage-data="t=$data/flat" <<<true)
	assert_contains "$out" bobs
	job_run bob --stage-data="t=$data/flat" <<<'ls $STAGE_DATA_PATH_T/00.bin'
}

# Fails when VisibleOn= is not asked.
test_a_source_that_nodes_do_not_see_is_refused_at_submission() {
	local out

	site_conf <<-'CONF'
	[source archive]
	Match=/srv/archive/**
	VisibleOn=mover
	MoverPartition=main
	CONF
	out=$(job_refused alice --stage-data=/srv/archive/x.tar <<<true)
	assert_match "$out" "see /srv/archive/x.tar.*VisibleOn=mover.*stagectl submit"
	assert_one_sentence "$out"
}

# Fails when DEST source is not looked at.
test_the_web_can_not_be_used_where_it_is() {
	local out

	site_conf <<-'CONF'
	[source web]
	Match=https://data.example.org/**
	CONF
	out=$(job_refused alice --stage-data=https://data.example.org/x.tar:source <<<true)
	assert_contains "$out" "on the web can't be used where it is"
	assert_one_sentence "$out"
}

# Fails when the script waits whatever the site says.
test_default_wait_is_the_sites() {
	local id

	set_key DefaultWait=no
	gate_close n1
	id=$(job_submit alice -w n1 --stage-data="t=/srv/pfs/gate/many.tar" <<<'echo begun; stagectl wait -q')
	job_wait_says "$id" begun
	gate_open n1
	job_done "$id"
}

# Fails when the first error is the last that is told.
test_check_config_finds_the_mistake() {
	local out status=0

	assert on ctl "$prefix/bin/stagectl" check-config
	site_conf <<<$'[daemon]\nEnabled=perhaps\nNoSuchKey=1'
	out=$(on ctl "$prefix/bin/stagectl" check-config 2>&1) || status=$?
	((status != 0)) || fail "check-config says that this is fine"
	assert_contains "$out" 50-test.conf
	assert_contains "$out" NoSuchKey
	assert_contains "$out" perhaps
}

# Fails when what is well is told as a failure.
test_doctor_is_content_with_this_cluster() {
	local out

	out=$(on n1 "$prefix/bin/stagectl" doctor 2>&1) || fail "doctor: $out"
}

# The shared tier is not the node's: what a job has put there is only known from the manifests.
# Fails when they are not released, and when each node has a copy of its own.
test_a_shared_tier_is_used_when_named_and_left_empty() {
	local id

	mkdir -p "$pfs/scratch/alice"
	chown 4001:4001 "$pfs/scratch/alice"
	at_end "rm -rf '$pfs/scratch'"
	site_conf <<-'CONF'
	[tier scratch]
	Kind=shared
	Path=/srv/pfs/scratch/%u
	CONF
	id=$(job_submit alice -N3 --stage-data="t=$data/many.tar:scratch,i=$data/many.zstd.sqsh:scratch,/srv/pfs/data/flat" <<-'JOB'
	srun bash -c 'find -L $STAGE_DATA_PATH_T -type f | wc -l; ls -d /srv/pfs/scratch/alice/*/*/data | while read -r d; do [[ ! $d -ef $STAGE_DATA_PATH_T ]] || echo $d; done; cat $STAGE_DATA_PATH_I/*/* | cksum'
	echo staged >/srv/pfs/home/alice/shared.staged
	sleep 100
	JOB
	)
	at_end "rm -f '$pfs/home/alice/shared.staged'"
	wait_until 30 test -e "$pfs/home/alice/shared.staged"
	assert_eq 1 "$(job_output "$id" | grep '^/srv/pfs/scratch/alice/' | sort -u | wc -l)" "places of the copy"
	assert_eq 3 "$(job_output "$id" | grep -c '^/srv/pfs/scratch/alice/')" "nodes that have it"
	assert_eq 1 "$(job_output "$id" | grep -E '^[0-9]+ [0-9]+$' | sort -u | wc -l)" "contents of the image"
	assert_eq 2 "$(find "$pfs/scratch/alice" -name data | wc -l)" "copies"
	as_on alice ctl scancel "$id"
	wait_until 20 job_nodes_clean "$id"
	assert_eq "" "$(find "$pfs/scratch/alice" -mindepth 1)" "what is left in the shared tier"
}

# Seen failing with a worker that takes no turn.
test_one_node_reads_after_the_other_where_there_is_one_token() {
	local id node

	mkdir -p "$pfs/tokens"
	touch "$pfs/tokens/1"
	at_end "rm -rf '$pfs/tokens'"
	site_conf <<-'CONF'
	[source slow]
	Match=/srv/pfs/gate/**
	MaxRate=6M
	TokenDir=/srv/pfs/tokens
	CONF
	sed -i 's|^Match=/srv/pfs/\*\*|Match=/srv/pfs/data/**|' "$base/etc/stage-data/stage-data.conf"
	id=$(job_submit alice -N3 --stage-data="t=/srv/pfs/gate/many.tar" \
		<<<'srun bash -c "stagectl log; echo read \$(cat \$STAGE_DATA_PATH_T/*/* | wc -c)"')
	job_done "$id"
	assert_eq 3 "$(job_output "$id" | grep -c "read 4063000")" "right copies"
	assert_eq 2 "$(job_output "$id" | grep -c "waits for its turn to be read")" "nodes that waited"
}

# What waited on any node, of all jobs
jitters() {
	cat "$base"/node/*/log/stage-data.log | grep -oE 'begins after [0-9]+ ms \(Jitter=\)'
}

# tasks_done ID TASK...
tasks_done() {
	local id=$1

	shift
	while (($#)); do
		job_done "${id}_$1" 90
		shift
	done
}

# Seen failing with a plugin that marks no array, with one that marks each, and with one that reads
# no script.
test_tasks_of_an_array_begin_at_moments_of_their_own() {
	local item="t=$data/many.tar" id

	sed -i 's|^Match=/srv/pfs/\*\*|&\nJitter=5s|' "$base/etc/stage-data/stage-data.conf"
	id=$(job_submit alice --array=1-6 -n1 --mem=100 -o /dev/null --stage-data="$item" <<<'ls $STAGE_DATA_PATH_T/*')
	tasks_done "$id" {1..6}
	assert_eq 6 "$(jitters | wc -l)" "tasks that waited"
	assert_le 4 "$(jitters | sort -u | wc -l)" "moments"
	assert_le "$(jitters | grep -oE '[0-9]+' | sort -n | tail -1)" 5000 "ms"
	printf '#!/bin/bash\n#SBATCH --array=0,3 -n1 --mem=100 -o /dev/null\n#SBATCH --stage-data=%s\nls\n' "$item" \
		>"$pfs/home/alice/array.sh"
	at_end "rm -f '$pfs/home/alice/array.sh'"
	id=$(as alice sbatch --parsable array.sh)
	tasks_done "$id" 0 3
	assert_eq 8 "$(jitters | wc -l)" "tasks that waited, with those of the script's array"
	# by the array's size or limit nobody comes at the same time
	id=$(job_submit alice -n1 --array=5 -o /dev/null --stage-data="$item" <<<true)
	tasks_done "$id" 5
	id=$(job_submit alice -n1 --array=1-2%1 -o /dev/null --stage-data="$item" <<<true)
	tasks_done "$id" 1 2
	job_run alice -n1 --stage-data="$item" <<<true
	assert_eq 8 "$(jitters | wc -l)" "tasks that waited, after those that should not"
}

# Seen failing with a plugin that passes no gres on, and with a daemon that does not ask for it.
test_a_tier_of_a_gres_is_for_jobs_that_asked_for_it() {
	local item="t=$data/many.tar" out id script=$pfs/home/alice/gres.sh

	sed -i 's/^\[tier ssd\]/&\nRequireGres=nvme/' "$base/etc/stage-data/stage-data.conf"
	out=$(job_refused alice --stage-data="$item:ssd" <<<true)
	assert_match "$out" '\[tier ssd\] is for jobs with --gres=nvme; ask for it'
	assert_one_sentence "$out"
	out=$(job_run alice --gres=nvme:1 --stage-data="$item:ssd" \
		<<<'[[ $STAGE_DATA_PATH_T -ef /srv/local/stage-data-$SLURM_JOB_ID/data/t ]] && echo on the disk; ls $STAGE_DATA_PATH_T | wc -l')
	assert_contains "$out" "on the disk"
	assert_contains "$out" 20
	printf '#!/bin/bash\n#SBATCH --gres=nvme:1 -o gres.out\n#SBATCH --stage-data=%s:ssd\nls $STAGE_DATA_PATH_T | wc -l\n' \
		"$item" >"$script"
	at_end "rm -f '$script' '${script%.sh}.out'"
	id=$(as alice sbatch --parsable gres.sh)
	job_done "$id"
	assert_eq 20 "$(tail -n 1 "${script%.sh}.out")" "files" # below the progress that a slow machine shows
	# the node's own word, where the login node had none
	node_conf n1 </dev/null
	sed -i '/^RequireGres=/d' "$base/etc/stage-data/stage-data.conf"
	id=$(job_submit alice -w n1 --stage-data="$item:ssd" <<<'echo begun')
	job_failed "$id"
	assert_contains "$(job_output "$id")" "[tier ssd] is for jobs with --gres=nvme"
	assert_one_sentence "$(job_output "$id")"
}

# Fails where stagectl asks the rules as if it had every gres.
test_a_tier_of_a_gres_is_for_no_run_and_no_explain() {
	local out item="$data/many.tar"

	sed -i 's/^\[tier ssd\]/&\nRequireGres=nvme/' "$base/etc/stage-data/stage-data.conf"
	out=$(as_on alice n1 stagectl run --stage-data="t=$item:ssd" -- echo begun 2>&1) && fail "run: $out"
	assert_contains "$out" "[tier ssd] is for jobs with --gres=nvme"
	assert_lacks "$out" begun
	out=$(as_on alice n1 stagectl explain "$item:ssd" 2>&1) || true
	assert_contains "$out" "[tier ssd] is for jobs with --gres=nvme"
}

# Fails where a tier goes to the keeper by its place in the configuration, and where the job is told
# of one that was changed that it "is not here".
test_a_job_keeps_to_the_tiers_it_began_with() {
	local conf=$base/etc/stage-data/stage-data.conf id out

	on n1 mkdir -p /srv/local/between /srv/local/moved
	at_end 'on n1 rmdir /srv/local/between /srv/local/moved'
	id=$(job_submit alice -w n1 --stage-data="t=$data/flat" <<-JOB
		echo begun
		until grep -q between /etc/stage-data/stage-data.conf; do sleep 0.05; done
		stagectl add a=$data/flat:ssd
		stagectl wait a && [[ \$STAGE_DATA_DIR/a -ef /srv/local/stage-data-\$SLURM_JOB_ID/data/a ]] && echo on the disk && ls /srv/local/between
		until grep -q moved /etc/stage-data/stage-data.conf; do sleep 0.05; done
		stagectl add b=$data/many.tar:ssd
		stagectl wait b
		ls /srv/local/moved
	JOB
	)
	job_wait_says "$id" begun
	sed -i 's|^\[tier ssd\]|[tier between]\nPath=/srv/local/between\n&|' "$conf"
	job_wait_says "$id" "on the disk"
	sed -i '/^\[tier ssd\]/,$ s|^Path=/srv/local$|Path=/srv/local/moved|' "$conf"
	job_wait "$id"
	out=$(job_output "$id")
	assert_contains "$out" "tier ssd: the site has changed it since the job began; submit the job again"
	assert_not grep -q "^stage-data-" <<<"$out"
	wait_until 10 job_nodes_clean "$id"
}

# Fails when steps do not launch.
test_launch_is_as_the_site_says() {
	local out

	set_key Launch=step
	job_run alice --stage-data="t=$data/flat" <<<'ls $STAGE_DATA_PATH_T/00.bin'
	sed -i 's/^Launch=step/Launch=prolog/' "$base/etc/stage-data/stage-data.conf"
	out=$(job_run alice --stage-data="t=$data/flat" <<<'ls $STAGE_DATA_PATH_T/00.bin')
	assert_contains "$out" 00.bin
}

# Fails when Backend= is not asked, and when the program is executed as it is, so that its user can
# trace it.
test_images_are_served_by_squashfuse_ll() {
	local out

	need_fuse
	printf '[mount]\nBackend=squashfuse_ll\n' >>"$base/etc/stage-data/stage-data.conf"
	out=$(job_run alice -N2 --stage-data="m=$data/many.zstd.sqsh,t=$data/many.tar::method=mount" <<-'SCRIPT'
		srun -N2 bash -c 'ls $STAGE_DATA_PATH_M | wc -l; ls $STAGE_DATA_PATH_T | wc -l'
		stagectl explain m | grep -o "by squashfuse_ll"
		for pid in $(pgrep -f ^squashfuse_ll); do
			grep NoNewPrivs /proc/$pid/status
			cat /proc/$pid/maps 2>&1 >/dev/null | grep -o "Permission denied"
			[[ ! $(cat /proc/$pid/maps 2>/dev/null) ]] || echo "can be traced"
		done
	SCRIPT
	)
	assert_eq 4 "$(grep -c '^20$' <<<"$out")" "all files of both, on both nodes: $out"
	assert_contains "$out" "by squashfuse_ll"
	assert_match "$out" 'NoNewPrivs:.1'
	assert_contains "$out" "Permission denied"
	assert_lacks "$out" "can be traced"
	assert_nodes_fine
}
