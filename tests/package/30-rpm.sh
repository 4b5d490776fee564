# The RPM on the same nodes: dependencies apart, for all else is Debian's. Sourced by tests/package/run.
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
	rpm -qp --requires "$dir"/old/stage-data-[0-9]*.x86_64.rpm | grep '^libarchive >= '
	assert_not grep -q slurm <(rpm -qp --requires "$dir"/old/stage-data-[0-9]*.x86_64.rpm)
}

test_rpm_is_used_and_removed() {
	local id name out left files=("$dir"/old/{stage-data-[0-9],slurm-}*.x86_64.rpm)

	apt install rpm >"$dir/apt.log" 2>&1
	rpm_n1 -i "${files[@]/#"$dir"//opt/packages}"
	rpm_n1 -V stage-data slurm-stage-data-plugin
	[[ $(on_n1 stat -c %a /usr/libexec/stage-data/stage-hand) == 711 ]]
	cp "$top/tests/lib/stage-data.conf" "$etc/stage-data/conf.d/site.conf"
	restart_slurmd
	id=$(begin_job)
	wait_until 20 says "$id" job-reads
	for name in slurm-stage-data-plugin stage-data; do
		! out=$(rpm_n1 -e "$name" 2>&1) || fail "removed: $out"
		[[ $out == *"jobs on this node have datasets: $id"* ]] || fail "$out"
	done
	rpm_n1 -V stage-data slurm-stage-data-plugin
	end_job "$id"
	rm "$etc/stage-data/conf.d/site.conf"
	rpm_n1 -e slurm-stage-data-plugin stage-data
	assert_not on_n1 test -e /run/stage-data
	[[ ! -e $etc/stage-data && ! -e $etc/slurm/plugstack.conf.d/stage-data.conf ]]
	left=$(in_root find /usr -name '*stage[-_]data*')
	[[ -z $left ]] || fail "left: $left"
	restart_slurmd
	is_undisturbed
}
