# The installation is incomplete or broken. Jobs without the option run as before, jobs with the
# option fail with one sentence, and no node is drained.

# broken_on_n1 REGEX: what every kind of breakage must look like
broken_on_n1() {
	local id out

	forgive_crashes n1
	assert_eq fine "$(job_run alice -w n1 <<<'echo fine')" "a job without the option"
	id=$(job_submit alice -w n1 --stage-data="t=$data/many.tar" <<<'echo begun')
	job_failed "$id" 30
	out=$(job_output "$id")
	assert_lacks "$out" begun
	assert_match "$out" "$1"
	assert_one_sentence "$out"
	assert_nodes_fine
	wait_until 10 job_nodes_clean "$id"
	id=$(job_submit alice -w n1 --stage-wait=tasks --stage-data="t=$data/many.tar" \
		<<<'srun bash -c "echo begun" && echo went on')
	job_wait "$id" 30
	assert_lacks "$(job_output "$id")" "begun"
	assert_nodes_fine
	assert_eq fine "$(job_run alice -w n1 <<<'echo fine')" "a job without the option"
}

libexec() {
	dirname "$(find "$prefix" -name stage-keeper -type f -print -quit)"
}

# replace_on_n1 PROGRAM <SCRIPT
replace_on_n1() {
	local path

	path=$(libexec)/$1
	cat >"$base/node/n1/local/$1"
	chmod 0755 "$base/node/n1/local/$1"
	on n1 mount --bind "/srv/local/$1" "$path"
	at_end "on n1 umount '$path'; rm -f '$base/node/n1/local/$1'"
}

# A real program that dies of a signal: a script would not even be started, as ours start programs
# by descriptors that are gone by the time its interpreter looks for it.
crashes_on_n1() {
	echo 'int main(void) { __builtin_trap(); }' | gcc -x c -o "$work/crash" -
	replace_on_n1 "$1" <"$work/crash"
}

# Fails when a task that is not begun doesn't say why.
test_all_helpers_are_missing() {
	local path

	path=$(libexec)
	on n1 mount -t tmpfs -o ro tmpfs "$path"
	at_end "on n1 umount '$path'"
	broken_on_n1 'stage-keeper|install'
}

# Fails when a worker that ends at once goes unnoticed.
test_the_worker_is_missing() {
	replace_on_n1 stage-worker </dev/null
	broken_on_n1 'stage-worker|install|worker'
}

# Fails when a task goes on because nobody answers who could hold it.
test_the_daemon_is_missing() {
	replace_on_n1 stagingd </dev/null
	broken_on_n1 'stagingd|install|daemon|staging'
}

# Fails when the keeper goes on without having read the configuration.
test_the_helper_is_missing() {
	replace_on_n1 stage-helper </dev/null
	broken_on_n1 'stage-helper|install'
}

# Fails when a task waits for longer than a few seconds for a keeper to begin.
test_the_keeper_crashes() {
	crashes_on_n1 stage-keeper
	broken_on_n1 'keeper|staging'
}

# Fails as test_the_daemon_is_missing does.
test_the_daemon_crashes() {
	crashes_on_n1 stagingd
	broken_on_n1 'daemon|stagingd|staging'
}

# Fails as test_the_worker_is_missing does.
test_the_worker_crashes() {
	crashes_on_n1 stage-worker
	broken_on_n1 't: .*(SIGILL|SIGTRAP|signal|killed)'
}

# Fails when the plugin doesn't look for the breaker.
test_crashes_of_keepers_turn_staging_off() {
	on n1 bash -c 'mkdir -p /run/stage-data && echo off >/run/stage-data/.breaker'
	at_end "on n1 rm -f /run/stage-data/.breaker"
	broken_on_n1 'off on this node after several crashes'
}

# Fails when the hook waits for the keeper without an end, or leaves it behind: the epilog does not
# know of a keeper that has no directory.
test_the_keeper_hangs() {
	replace_on_n1 stage-keeper <<<$'#!/bin/bash\nexec sleep 120.25'
	at_end "on n1 pkill -fx 'sleep 120.25' || true"
	broken_on_n1 'keeper|staging'
	assert_eq "" "$(on n1 pgrep -fx 'sleep 120.25' || true)" "keepers that nobody ends"
}

# Fails when a key that is not known is passed over.
test_the_configuration_has_an_unknown_key() {
	node_conf n1 <<<$'[daemon]\nNoSuchKey=yes'
	broken_on_n1 'NoSuchKey|configuration'
}

# Fails when what is wrong with a configuration is told, and no more.
test_the_configuration_is_noise() {
	node_conf n1 < <(head -c 4000 /dev/urandom)
	broken_on_n1 'configuration|conf'
}

# Fails when whose the file is is not looked at.
test_the_configuration_belongs_to_a_user() {
	node_conf n1 <<<$'[daemon]\nEnabled=yes'
	chown 4001 "$base/node/n1/stage-data/stage-data.conf"
	broken_on_n1 'stage-data.conf|configuration'
}

# Fails when the keeper ends without telling the plugin the reason.
test_the_run_directory_can_not_be_written() {
	on n1 mkdir -p /run/stage-data
	on n1 mount -t tmpfs -o ro tmpfs /run/stage-data
	at_end "on n1 umount /run/stage-data"
	broken_on_n1 '/run/stage-data|staging'
}

# Fails when an image is unpacked though it was to be mounted.
test_no_fuse_device() {
	local id

	on n1 rm /dev/fuse
	at_end "on n1 mknod -m 0666 /dev/fuse c 10 229"
	id=$(job_submit alice -w n1 --stage-data="m=$data/many.zstd.sqsh::method=mount" <<<'echo begun')
	job_failed "$id" 30
	assert_lacks "$(job_output "$id")" begun
	assert_match "$(job_output "$id")" 'fuse'
	job_run alice -w n1 --stage-data="t=$data/many.tar" <<<'ls $STAGE_DATA_PATH_T/00/000'
}

# Fails when the plan for images knows mounting alone.
test_without_fuse_an_image_is_unpacked() {
	local out

	on n1 rm /dev/fuse
	at_end "on n1 mknod -m 0666 /dev/fuse c 10 229"
	out=$(job_run alice -w n1 --stage-data="m=$data/many.zstd.sqsh" <<-'EOS'
	stat -f -c %T $STAGE_DATA_PATH_M
	cat $STAGE_DATA_PATH_M/*/* | cksum
	stagectl explain m
	EOS
	)
	assert_eq tmpfs "$(sed -n 1p <<<"$out")"
	assert_eq "$(as_on alice ctl bash -c "tar -xOf $data/many.tar --wildcards '*/*' | cksum")" \
		"$(sed -n 2p <<<"$out")" "checksum of all contents"
	assert_contains "$out" "can't be mounted"
}

# Fails when the keeper opens the directory that it finds.
test_leftovers_of_an_old_job_with_the_same_id_are_not_adopted() {
	local id next

	id=$(job_submit alice <<<true)
	next=$((id + 1))
	on n1 bash -c "mkdir -p /run/stage-data/$next/t/data /run/stage-data/$next/m/0
		echo old >/run/stage-data/$next/t/data/t
		echo garbage >/run/stage-data/$next/state"
	job_done "$id"
	assert_contains "$(job_run alice -w n1 --stage-data="t=$data/flat" \
		<<<'echo $SLURM_JOB_ID; cmp $STAGE_DATA_PATH_T/00.bin /srv/pfs/data/flat/00.bin && echo right')" right
	spoil_cluster
}

# Fails when stagectl does not read what the keeper has left.
test_status_has_rows_for_a_node_on_which_staging_could_not_begin() {
	local id out why='staging could not begin: .*NoSuchKey'

	node_conf n1 <<<$'[daemon]\nNoSuchKey=yes'
	id=$(job_submit alice -w n1,n2 -N2 --stage-wait=no --stage-data="t=$data/flat,m=$data/many.tar" <<-EOS
	srun -N1 -n1 -w n2 stagectl wait -q
	stagectl status || echo "here \$?"
	stagectl status --all-nodes || echo "all \$?"
	stagectl report || echo "report \$?"
	echo begun
	$until_let_go
	EOS
	)
	job_wait_says "$id" begun
	out=$(job_output "$id")
	assert_match "$out" "m +failed.*$why.*here [16]"
	assert_match "$out" "n1 +m +failed.*$why.*n1 +t +failed.*$why.*n2 +m +ready.*n2 +t +ready.*all [16]"
	assert_match "$out" "t +n1 +failed.*t +n2 +ready"
	assert_match "$out" "t failed on 1 node \\(n1\\): $why"
	out=$(as alice env SLURM_JOB_ID="$id" stagectl status --all-nodes 2>&1) && fail "$out"
	assert_match "$out" "n1 +[mt*] +failed.*$why"
	assert_match "$out" 'n2 +t +ready'
	let_go "$id"
	job_wait "$id"
	assert_nodes_fine
}
