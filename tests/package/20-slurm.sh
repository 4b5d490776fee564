# Under Slurm: a cluster of three nodes whose /usr is the clean root's. dpkg runs on n1, where the
# jobs are. Each test begins where the one before has left it. Sourced by tests/package/run.
# shellcheck shell=bash

readonly cluster_base=/var/tmp/stage-package-cluster
readonly pfs=$root$cluster_base/pfs
readonly etc=$root$cluster_base/etc

cluster() {
	in_root /opt/test/cluster "$@"
}

# as CMD...: alice, on the login node
as() {
	cluster as alice ctl "$@"
}

on_n1() {
	cluster in n1 "$@"
}

# dpkg on n1, whose /var/lib is not its own then
dpkg_n1() {
	on_n1 env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive dpkg "$@"
}

# install_n1 old|new
install_n1() {
	dpkg_n1 -i "$(deb_file "$1" stage-data)" "$(deb_file "$1" slurm-wlm-stage-data-plugin)"
}

is_installed() {
	# shellcheck disable=SC2016
	[[ $(on_n1 dpkg-query -W -f '${db:Status-Status}' "$1") == installed ]]
}

state_of() {
	cluster in ctl scontrol show job -o "$1" 2>/dev/null | sed -nE 's/.* JobState=([A-Z_]+) .*/\1/p'
}

is_state() {
	[[ $(state_of "$1") == "$2" ]]
}

is_over() {
	[[ $(state_of "$1") =~ ^(COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL)$ ]]
}

output_of() {
	cat "$pfs/home/alice/slurm-$1.out" 2>/dev/null || true
}

says() {
	grep -qx "$2" "$pfs/home/alice/slurm-$1.out" 2>/dev/null
}

# begin_job: prints its id. It reads a copy in memory and a mounted image all the time, until it is
# told to end, and fails with the first read that does. When it is told to ask for more it has a
# step look, and its daemon stage another dataset.
begin_job() {
	as sbatch --parsable --no-requeue -w n1 --stage-data=tree=/srv/pfs/data/tree \
		--stage-data=image=/srv/pfs/data/image.sqsh <<-'SCRIPT'
		#!/bin/bash
		set -eu
		look() {
			for path in "$STAGE_DATA_PATH_TREE" "$STAGE_DATA_PATH_IMAGE"; do
				[[ $(cat "$path/file") == content ]]
			done
		}
		look
		echo job-reads
		while [[ ! -e ~/end.$SLURM_JOB_ID ]]; do
			look
			sleep 0.1
			[[ -e ~/more.$SLURM_JOB_ID ]] || continue
			rm ~/more.$SLURM_JOB_ID
			[[ $(srun --overlap bash -c 'cat "$STAGE_DATA_PATH_TREE/file"') == content ]]
			[[ $(stagectl status) == *image*ready* ]]
			stagectl add more=/srv/pfs/data/tree
			stagectl wait more
			[[ $(cat "$(stagectl path more)/file") == content ]]
			echo job-got-more
		done
		look
		echo job-read-to-its-end
	SCRIPT
}

end_job() {
	touch "$pfs/home/alice/end.$1"
	wait_until 30 is_over "$1"
	[[ $(state_of "$1") == COMPLETED ]] || fail "job $1: $(state_of "$1"): $(output_of "$1")"
	says "$1" job-read-to-its-end
	wait_until 20 is_clean "$1"
}

# Nothing of the job is left on its node.
is_clean() {
	! on_n1 test -e "/run/stage-data/$1" &&
		! on_n1 grep -q "/run/stage-data/$1/" /proc/self/mountinfo &&
		! on_n1 sh -c 'ls -d /run/stage-data/.trash/* >/dev/null 2>&1' &&
		! on_n1 find /sys/fs/cgroup -type d -name "job_$1" | grep -q .
}

keeper_of() {
	on_n1 sed -nE 's/^keeper=([0-9]+):.*/\1/p' "/run/stage-data/$1/state"
}

# The program of a job's keeper: an older one's file is gone, and says so.
program_of() {
	on_n1 readlink "/proc/$(keeper_of "$1")/exe"
}

nodes_are_idle() {
	[[ $(cluster in ctl sinfo -h -N -p main -t idle -o %N | wc -l) == 3 ]]
}

# What an admin does. `cluster restart` would write plugstack.conf anew.
restart_slurmd() {
	local node

	for node in n1 n2 n3; do
		cluster slurmd-restart $node
	done
	wait_until 20 nodes_are_idle
}

# Slurm works, and has nothing to say.
is_undisturbed() {
	local out

	out=$(as srun -w n1 echo undisturbed 2>&1)
	[[ $out == undisturbed ]] || fail "srun says: $out"
}

test_install_beside_running_slurm() {
	local id name

	apt install "${slurm_packages[@]}" libarchive13 libcurl4 libdeflate0 libfuse3-3 libinih1 libisal2 \
		libnettle8 libslurm38 libsquashfuse0 >"$dir/apt.log" 2>&1 || { cat "$dir/apt.log"; return 1; }
	in_root dpkg --purge "${debs[@]}"
	cluster up
	mkdir -p "$pfs/data/tree"
	echo content >"$pfs/data/tree/file"
	mksquashfs "$pfs/data/tree" "$pfs/data/image.sqsh" -quiet -no-progress
	chmod -R a+rX "$pfs/data"
	on_n1 umount /var/lib
	# As Debian has it; the site's configuration is its own
	echo 'include /etc/slurm/plugstack.conf.d/*.conf' >"$etc/slurm/plugstack.conf"
	rm -rf "$etc/stage-data"
	restart_slurmd
	[[ $(as srun hostname | sort -u) == n1 ]]
	id=$(as sbatch --parsable -w n1 --wrap 'while [ ! -e ~/end.$SLURM_JOB_ID ]; do sleep 0.1; done; srun echo went-on')
	wait_until 20 is_state "$id" RUNNING
	install_n1 old
	for name in "${debs[@]}"; do
		is_installed "$name"
	done
	cp "$dir/site.conf" "$etc/stage-data/conf.d/site.conf"
	for name in n1 n2 n3; do
		cluster slurmd-restart $name
	done
	# What ran before the plugin was there isn't hindered by it
	touch "$pfs/home/alice/end.$id"
	wait_until 30 is_over "$id"
	is_state "$id" COMPLETED
	says "$id" went-on
	id=$(begin_job)
	wait_until 20 says "$id" job-reads
	[[ $(program_of "$id") == /usr/libexec/stage-data/stage-keeper ]]
	end_job "$id"
}

# The daemon and workers of the job are the old ones; client, plugin and epilog are the new ones.
test_upgrade_while_a_job_runs() {
	local old new

	old=$(begin_job)
	wait_until 20 says "$old" job-reads
	install_n1 new
	[[ $(on_n1 stagectl --version) == *"$(version_of new)"* ]]
	[[ $(program_of "$old") == *"(deleted)" ]]
	# A step with the new plugin, the new client, and a dataset by the old daemon's worker
	touch "$pfs/home/alice/more.$old"
	wait_until 30 says "$old" job-got-more
	new=$(begin_job)
	wait_until 20 says "$new" job-reads
	[[ $(program_of "$new") == /usr/libexec/stage-data/stage-keeper ]]
	end_job "$old"
	end_job "$new"
	wait_until 20 nodes_are_idle
}

test_downgrade_while_a_job_runs() {
	local id

	id=$(begin_job)
	wait_until 20 says "$id" job-reads
	install_n1 old
	[[ $(on_n1 stagectl --version) == *"$(version_of old)" ]]
	[[ $(program_of "$id") == *"(deleted)" ]]
	touch "$pfs/home/alice/more.$id"
	wait_until 30 says "$id" job-got-more
	end_job "$id"
	wait_until 20 nodes_are_idle
}

# job_with_a_dead_keeper OTHER: its end is seen by the version OTHER alone
job_with_a_dead_keeper() {
	local id

	id=$(begin_job)
	wait_until 20 says "$id" job-reads
	install_n1 "$1"
	on_n1 kill -KILL "$(keeper_of "$id")"
	as scancel "$id"
	wait_until 30 is_over "$id"
	wait_until 20 is_clean "$id"
	on_n1 rm -f /run/stage-data/.crashes
	wait_until 20 nodes_are_idle
}

# Whatever ends it, the job is cleaned up after by another version: here a keeper that died. Both
# ways.
test_other_version_cleans_up_after_a_dead_keeper() {
	job_with_a_dead_keeper new
	job_with_a_dead_keeper old
}

# Neither the plugin nor the programs go, and the job doesn't notice.
test_removal_is_refused_while_a_job_runs() {
	local id name out

	id=$(begin_job)
	wait_until 20 says "$id" job-reads
	for name in --remove --purge; do
		! out=$(dpkg_n1 $name "${debs[@]}" 2>&1) || fail "removed: $out"
		[[ $out == *"jobs on this node have datasets: $id"* ]] || fail "$out"
	done
	for name in "${debs[@]}"; do
		is_installed "$name"
	done
	end_job "$id"
}

test_removal_leaves_nothing() {
	local left id line=$etc/slurm/plugstack.conf.d/stage-data.conf

	echo '# the site was here' >>"$line"
	dpkg_n1 --remove "${debs[@]}"
	assert_not on_n1 test -e /run/stage-data
	# With the plugin its line goes out of Slurm's sight, or every srun would tell of it; as the
	# site had it
	assert_not test -e "$line"
	is_undisturbed
	restart_slurmd
	is_undisturbed
	install_n1 old
	grep -qx '# the site was here' "$line"
	restart_slurmd
	id=$(begin_job)
	wait_until 20 says "$id" job-reads
	end_job "$id"
	# What the site has taken out stays out
	rm "$line"
	install_n1 new
	assert_not test -e "$line"
	rm "$etc/stage-data/conf.d/site.conf"
	dpkg_n1 --purge "${debs[@]}"
	[[ ! -e $etc/stage-data ]]
	assert_not compgen -G "$line*"
	restart_slurmd
	is_undisturbed
	left=$(in_root find / -xdev \( -path /opt -o -path "$cluster_base" \) -prune -o -name '*stage[-_]data*' -print)
	[[ -z $left ]] || fail "left: $left"
	wait_until 20 nodes_are_idle
}
