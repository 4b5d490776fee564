# A site at which each job has its own mount namespace and /tmp (job_container/tmpfs). Mounts that
# were made before the namespace are visible in it. Later mounts are visible if JobNamespace= names
# the file of the namespace.

namespaces_cgroups=v1

# private_namespaces [STAGE-DATA.CONF LINE...]
private_namespaces() {
	"$cluster" restart --container tmpfs --cgroups $namespaces_cgroups
	audit_own '/var/spool/job_container/*/.ns' # not what stands beside it: the job's own /tmp
	printf '%s\n' "$@" | site_conf
}

readonly namespace_file=JobNamespace=/var/spool/job_container/%N/%j/.ns

# The last item is mounted when the namespace has long been there. Breaks without mounts_repeat(),
# which brings the mount of an image there, and where a dataset is placed on the node alone.
test_late_mounts_are_seen_in_the_jobs_namespace() {
	local id

	need_fuse
	private_namespaces '[mount]' "$namespace_file"
	id=$(job_submit alice -N2 --ntasks-per-node=1 \
		--stage-data="t=$data/many.tar,m=$data/many.zstd.sqsh" <<-EOS
		set -e
		touch /tmp/of-the-job
		srun bash -c 'for p in \$STAGE_DATA_PATH_T \$STAGE_DATA_PATH_M; do test ! -L \$p && cat \$p/*/* | cksum; done'
		srun stagectl add late=$data/many.zstd.sqsh
		srun stagectl wait -q late
		srun bash -c 'cat "\$(stagectl path late)"/*/* | cksum'
		srun bash -c 'echo "images: \$(grep -c " /run/stage-data/\$SLURM_JOB_ID/m/" /proc/self/mountinfo)"'
		echo begun
		$until_let_go
	EOS
	)
	job_wait_says "$id" begun 60
	assert_not on n1 test -e /tmp/of-the-job
	let_go "$id"
	job_done "$id"
	assert_eq 6 "$(job_output "$id" | grep -c "^$(cat "$pfs"/data/many/*/* | cksum)$")" "right copies"
	assert_eq 2 "$(job_output "$id" | grep -cx "images: 2")" "nodes that have both images mounted"
	wait_until 10 job_nodes_clean "$id"
	assert_nodes_fine
}

# Fails as that before, with what is started in Slurm's own scope.
test_late_mounts_are_seen_on_cgroup_v2() {
	namespaces_cgroups=v2
	test_late_mounts_are_seen_in_the_jobs_namespace
}

# One sentence in place of an empty directory. Red without mount_visible_check()
# (client/mount-visible.c) in wait and in path.
test_without_jobnamespace_a_late_mount_is_told() {
	local id

	need_fuse
	private_namespaces
	id=$(job_submit alice -N1 --stage-wait=no --stage-data="t=$data/many.tar" <<-EOS
		stagectl wait -q t || exit
		stagectl add late=$data/many.zstd.sqsh
		stagectl wait -q late
		echo "wait: \$?"
		stagectl path late
		echo "path: \$?"
		srun --overlap stagectl wait -q --all-nodes t && echo the rest goes on
	EOS
	)
	job_done "$id"
	assert_eq 2 "$(job_output "$id" | grep -c 'late: it is ready on the node and not seen in this job.s mount namespace; stage it with method=extract, or')" \
		"sentences in: $(job_output "$id")"
	assert_eq 2 "$(job_output "$id" | grep -cE '^(wait|path): 1$')" "statuses in: $(job_output "$id")"
	assert_contains "$(job_output "$id")" "the rest goes on"
}

# Red without mounts_has_namespace() (daemon/manager/mounts.c): the job would find an empty
# directory in its place.
test_without_jobnamespace_a_disk_is_behind_a_link() {
	local id

	private_namespaces
	id=$(job_submit alice -N1 --stage-data="d=$data/flat:ssd" <<-'EOS'
		stagectl add late=/srv/pfs/data/flat:ssd
		stagectl wait -q late || exit
		[[ -L $STAGE_DATA_DIR/late ]] && echo "it is a link"
		ls $STAGE_DATA_PATH_D $STAGE_DATA_DIR/late/ | grep -c bin
	EOS
	)
	job_done "$id"
	assert_contains "$(job_output "$id")" "it is a link"
	assert_contains "$(job_output "$id")" 20
	assert_nodes_fine
}

# A script whose image is hidden doesn't begin. Red without mount_visible_check() in the report of
# nodes.
test_without_jobnamespace_a_script_does_not_begin_without_its_image() {
	local id

	need_fuse
	private_namespaces '[daemon]' Launch=step
	id=$(job_submit alice -N2 --stage-data="m=$data/many.zstd.sqsh" <<<'echo begun')
	job_failed "$id"
	assert_lacks "$(job_output "$id")" begun
	assert_contains "$(job_output "$id")" "not seen in this job's mount namespace"
	assert_one_sentence "$(job_output "$id")"
	assert_nodes_fine
}

# Fails when the epilog does not clean up.
test_a_job_with_a_namespace_is_cancelled_while_it_reads() {
	local id

	need_fuse
	private_namespaces '[mount]' "$namespace_file"
	id=$(job_submit alice -N2 --stage-data="t=$data/many.tar,m=$data/many.zstd.sqsh" <<-'EOS'
		echo begun
		srun -N2 -n2 bash -c 'cd "$STAGE_DATA_PATH_M"; while cat */* >/dev/null; do :; done'
	EOS
	)
	job_wait_says "$id" begun
	as alice scancel "$id"
	job_wait "$id"
	wait_until 10 job_nodes_clean "$id"
	assert_nodes_fine
}
