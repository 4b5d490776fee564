# What a second user, the same user from another job and root of a user namespace try against a job:
# denied, or harmless. tests/cluster/hostile-actions has the table of it; it also says who may do each
# thing, so that every check is seen to come out otherwise.
# shellcheck shell=bash

readonly hostile=/srv/pfs/hostile-actions
readonly hostile_items="t=$data/many.tar,m=$data/many.zstd.sqsh,d=$data/flat:ssd"

hostile_prepare() {
	install -m 0755 "$here/hostile-actions" "$pfs/hostile-actions"
}

# victim: a job of alice's with a dataset of each kind, ready
victim() {
	local id

	id=$(job_submit alice -w n1 -n1 --mem=400 --stage-data="$hostile_items" <<-'EOS'
	echo begun
	while [[ ! -e ~/go.$SLURM_JOB_ID ]]; do sleep 0.2; done
	cat "$STAGE_DATA_PATH_T"/*/* "$STAGE_DATA_PATH_M"/*/* | cksum
	cmp "$STAGE_DATA_PATH_D/00.bin" /srv/pfs/data/flat/00.bin && stagectl wait && echo untouched
	EOS
	)
	job_wait_says "$id" begun 30
	echo "$id"
}

# Where everything of the job is, for hostile-actions
facts_of() {
	local id=$1 rundir=/run/stage-data/$1 image

	image=$(as_on alice n1 readlink "$rundir/t/data/m")
	echo "job=$id" "rundir=$rundir" "tier=/srv/local/stage-data-$id" \
		"tierfile=$(on n1 find "/srv/local/stage-data-$id" -name 00.bin)" \
		"keeper=$(on n1 pgrep -x stage-keeper)" "daemon=$(on n1 pgrep -x stagingd)" \
		"worker=$(on n1 pgrep -x stage-worker)" \
		"image=$image" \
		"connection=$(on n1 awk -v t="$image" '$5 == t { split($3, a, ":"); print a[2] }' /proc/self/mountinfo)"
}

# all_as_expected COMMAND...: of hostile-actions
all_as_expected() {
	local out

	out=$("$@")
	assert_match "$out" '^[0-9]+ tried, 0 otherwise$'
}

test_nothing_is_given_to_other_users_and_other_jobs() {
	local id facts sibling

	hostile_prepare
	id=$(victim)
	facts=$(facts_of "$id")
	# shellcheck disable=SC2086
	{
		all_as_expected as_on bob n1 $hostile other $facts
		all_as_expected as_on bob n1 unshare -Urm $hostile namespace $facts
	}
	touch "$pfs/home/alice/go.$id"
	job_done "$id"
	assert_contains "$(job_output "$id")" " 8126000"
	assert_contains "$(job_output "$id")" untouched

	id=$(victim)
	facts=$(facts_of "$id")
	sibling=$(job_submit alice -w n1 -n1 --mem=100 <<<"$hostile sibling $facts")
	job_done "$sibling"
	assert_match "$(job_output "$sibling")" '^[0-9]+ tried, 0 otherwise$'
	as alice scancel "$id"
	wait_until 10 job_nodes_clean "$id"

	id=$(victim)
	facts=$(facts_of "$id")
	# shellcheck disable=SC2086
	all_as_expected on n1 $hostile root $facts
	as alice scancel "$id"
	wait_until 10 job_nodes_clean "$id"
	assert_nodes_fine
}

# docs/security.md has the table as it is printed here.
test_the_table_in_the_manual_is_the_one_that_is_tried() {
	assert_eq "$("$here/hostile-actions" --table)" \
		"$(sed -n '/^| action /,/^$/{/^$/!p}' "$here/../../docs/security.md")" "table of actions"
}
