# Audit of the paths that root names: every stage-keeper of a node runs under strace, and
# tests/lib/audit reads what it wrote. The runner does it for all its tests with STAGE_TEST_AUDIT=1.
# shellcheck shell=bash

readonly audit_calls=%file,setresuid,setreuid,setuid,clone,clone3,fork,vfork,bind,connect,fchdir,fchmod,fchown,\
setns,unshare,fsopen,open_tree,move_mount,fspick,mount_setattr,inotify_add_watch,name_to_handle_at

# move PATH...: the shell that runs it, in each hierarchy where it began in a group of a job's;
# "back" is that group
readonly audit_move='move() {
	while IFS=: read -r _ name began; do
		for path; do
			[ "$path" != back ] || path=$began
			path=/sys/fs/cgroup/${name#name=}$path
			{ echo 0 >"$path/tasks" || echo 0 >"$path/cgroup.procs"; } 2>/dev/null && break
		done
	done <"/var/log/.audit/groups.$$"
}'

# audit_begin NODE: the tracer is no parent of the keeper's, which keeps its pid and its
# descriptors. Nor does it stand in the groups of a job whose step starts the keeper: Slurm would
# kill it there, or not get rid of them.
audit_begin() {
	local node=$1 keeper dir=$base/node/$1/log/.audit

	keeper=$(find "$prefix" -name stage-keeper -type f -print -quit)
	mkdir -p "$dir"
	[[ -e $dir/stage-keeper ]] || cp "$keeper" "$dir/stage-keeper"
	cat >"$dir/wrapper" <<-WRAPPER
	#!/bin/sh
	$audit_move
	keeper=/var/log/.audit/stage-keeper
	if grep /job_ /proc/self/cgroup >/var/log/.audit/groups.\$\$; then
		keeper=/var/log/.audit/back
		move /system /
	fi
	exec strace -DDD -ff -y -s 4096 --seccomp-bpf -qq -e trace=$audit_calls \
		-o /var/log/.audit/log.\$\$ \$keeper "\$@"
	WRAPPER
	cat >"$dir/back" <<-BACK
	#!/bin/sh
	$audit_move
	move back
	exec /var/log/.audit/stage-keeper "\$@"
	BACK
	chmod 0755 "$dir/back"
	chmod 0755 "$dir/wrapper"
	chmod 0700 "$dir"
	on "$node" mkdir -p /var/log/.audit
	on "$node" mount --bind /var/log/.audit/wrapper "$keeper"
}

audit_stop() {
	on "$1" umount "$(find "$prefix" -name stage-keeper -type f -print -quit)"
	rm -rf "$base/node/$1/log/.audit"
}

# audit_all: of every node that is audited. The runner tells the number, so that a test in which
# nothing was looked at (its keepers are others) can be told from one in which all was well.
audit_all() {
	local node out status=0 paths=0

	for node in n1 n2 n3; do
		[[ -e $base/node/$node/log/.audit ]] || continue
		out=$(audit_check "$node") || status=1
		[[ -z $out ]] || sed "s/^/$node: /" <<<"$out"
		[[ ! $out =~ ([0-9]+)\ paths\ named ]] || paths=$((paths + BASH_REMATCH[1]))
	done
	((!${STAGE_TEST_AUDIT:-0})) || echo "NOTE: $paths paths named by root"
	return $status
}

audit_is_over() {
	! on "$1" pgrep -x strace >/dev/null
}

# audit_own PATTERN...: places that root names only because this test, or its site, has it do so
audit_own() {
	printf '%s\n' "$@" >>"$work/audit-own"
}

# audit_check NODE: says what root should not have named, and forgets the logs
audit_check() {
	local node=$1 dir=$base/node/$1/log/.audit status=0 own=()

	[[ ! -e ${work:-}/audit-own ]] || mapfile -t own <"$work/audit-own"
	wait_until 20 audit_is_over "$node"
	rm -rf "$dir.read"
	mkdir "$dir.read"
	mv "$dir"/log.* "$dir.read/" 2>/dev/null || { rm -rf "$dir.read"; return 0; }
	"$here/../lib/audit" "$dir.read" "$(dirname "$(find "$prefix" -name stagingd)")" /srv/local /tmp /var/lib/figures \
		"${own[@]}" || status=1
	rm -rf "$dir.read"
	return $status
}
