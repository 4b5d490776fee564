# The RPM on the same nodes: dependencies apart, for all else is Debian's. Sourced by
# tests/package/run.
# shellcheck shell=bash

# rpm on n1, which Debian has for looking, not for installing
rpm_n1() {
	on_n1 env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin rpm --force-debian --nodeps "$@"
}

test_rpm_requires_one_release_of_slurm() {
	local release

	release=$(dpkg-query -W -f '${Version}' libslurm-dev | cut -d. -f1,2)
	rpm -qp --requires "$dir"/old/slurm-stage-data-plugin-*.x86_64.rpm | grep -x "slurm >= $release"
	rpm -qp --requires "$dir"/old/slurm-stage-data-plugin-*.x86_64.rpm | grep -x "slurm < $release.99"
	rpm -qp --requires "$dir"/old/slurm-stage-data-plugin-*.x86_64.rpm | grep '^stage-data = '
	rpm -qp --requires "$dir"/old/slurm-stage-data-plugin-*.x86_64.rpm | grep '^libslurm\.so' # stage-slurm's
	rpm -qp --requires "$dir"/old/stage-data-[0-9]*.x86_64.rpm | grep '^libarchive >= '
	assert_not grep -q slurm <(rpm -qp --requires "$dir"/old/stage-data-[0-9]*.x86_64.rpm)
}

# Fails with a line of a description that is too long.
test_rpmlint_finds_nothing() {
	local found

	found=$(rpmlint -c "$top/packaging/rpm/rpmlint.toml" "$top/packaging/rpm/stage-data.spec" "$dir"/old/*.rpm | grep -E ': [WE]: ') || true
	[[ -z $found ]] || fail "$found"
}

# rpm_files old|new: both packages, as n1 sees them
rpm_files() {
	local file

	for file in "$dir/$1"/{stage-data-[0-9],slurm-}*.x86_64.rpm; do
		echo "/opt/packages/$1/${file##*/}"
	done
}

test_rpm_is_used() {
	local id name out

	apt install rpm >"$dir/apt.log" 2>&1
	# shellcheck disable=SC2046
	rpm_n1 -i $(rpm_files old)
	rpm_n1 -V stage-data slurm-stage-data-plugin
	[[ $(on_n1 stat -c %a /usr/libexec/stage-data/{stagingd,stage-{worker,fetch,helper,broadcast}} | sort -u) == 711 ]]
	cp "$dir/site.conf" "$etc/stage-data/conf.d/site.conf"
	restart_slurmd
	id=$(begin_job)
	wait_until 20 says "$id" job-reads
	for name in slurm-stage-data-plugin stage-data; do
		! out=$(rpm_n1 -e "$name" 2>&1) || fail "removed: $out"
		[[ $out == *"jobs on this node have datasets: $id"* ]] || fail "$out"
	done
	rpm_n1 -V stage-data slurm-stage-data-plugin
	end_job "$id"
}

# rpm_moves_to old|new OPTION...: under a job of the one version, which gets more, one of the other
# begins
rpm_moves_to() {
	local before after

	before=$(begin_job)
	wait_until 20 says "$before" job-reads
	# shellcheck disable=SC2046
	rpm_n1 "${@:2}" $(rpm_files "$1")
	[[ $(on_n1 stagectl --version) =~ (^| )"$(version_of "$1")"$ ]]
	[[ $(on_n1 rpm --force-debian -q stage-data slurm-stage-data-plugin | grep -c -- "-$(version_of "$1")-1[.]") == 2 ]]
	[[ $(program_of "$before") == *"(deleted)" ]]
	touch "$pfs/home/alice/more.$before"
	wait_until 30 says "$before" job-got-more
	after=$(begin_job)
	wait_until 20 says "$after" job-reads
	[[ $(program_of "$after") == /usr/libexec/stage-data/stage-keeper ]]
	end_job "$before"
	end_job "$after"
	wait_until 20 nodes_are_idle
}

# %preun and %postun of the version that goes run after those of the one that comes: they may take
# nothing away.
test_rpm_upgrade_and_downgrade_while_a_job_runs() {
	local out

	echo '# the site was here' | tee -a "$etc/stage-data/stage-data.conf" >>"$etc/slurm/plugstack.conf.d/stage-data.conf"
	rpm_moves_to new -U
	rpm_moves_to old -U --oldpackage
	for out in "$etc"/{stage-data,slurm/plugstack.conf.d}/stage-data.conf; do
		[[ $(tail -n 1 "$out") == '# the site was here' ]]
	done
	assert_not compgen -G "$etc/*/*.rpm*"
	assert_not compgen -G "$etc/slurm/plugstack.conf.d/*.rpm*"
	# One without the other. What Debian has and rpm knows nothing of is named beside it.
	! out=$(on_n1 rpm --force-debian -U --test "/opt/packages/new/stage-data-$(version_of new)-1.x86_64.rpm" 2>&1) ||
		fail "half of an upgrade: $out"
	[[ $out == *"stage-data = $(version_of old)-1 is needed by (installed) slurm-stage-data-plugin"* ]] || fail "$out"
}

test_rpm_removal_leaves_nothing() {
	local left

	rm "$etc/stage-data/conf.d/site.conf"
	rpm_n1 -e slurm-stage-data-plugin stage-data
	assert_not on_n1 test -e /run/stage-data
	# What the site has changed is put aside, where Slurm doesn't read it
	rm "$etc"/{stage-data,slurm/plugstack.conf.d}/stage-data.conf.rpmsave
	rmdir "$etc/stage-data" 2>/dev/null || true
	[[ ! -e $etc/stage-data && ! -e $etc/slurm/plugstack.conf.d/stage-data.conf ]]
	left=$(in_root find /usr -name '*stage[-_]data*')
	[[ -z $left ]] || fail "left: $left"
	restart_slurmd
	is_undisturbed
}
