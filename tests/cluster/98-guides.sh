# What docs/getting-started.md, docs/user.md and docs/admin.md tell people to type, typed: blocks
# are told apart by tests/cluster/guide-blocks. Users, their files and programs are those of
# 97-examples.sh.
# shellcheck shell=bash

readonly docs=$here/../../docs

# Jobs as they stand, with less memory and time, for the data is small.
guide_set_up() {
	local d=$base/pfs/home/alice/examples

	set_up
	cp "$pfs/data/nested.tar" "$d/data/classes.tar"
	printf '#!/bin/bash\nexec /usr/bin/sbatch --mem=200M --time=2 --no-requeue -o out.%%j "$@"\n' >"$d/bin/sbatch"
	chmod 755 "$d/bin/sbatch"
	mkdir "$work/blocks"
}

# Where this cluster has what a package has in /usr
type_as_root() {
	sed "s|/usr/libexec/stage-data|$prefix/libexec/stage-data|g" | on n1 env PATH="$prefix/bin:$PATH" bash -eu
}

# A refusal is a sentence of ours.
type_refused() {
	local out

	! out=$("$@" bash -eu 2>&1) || fail "not refused: $out"
	assert_contains "$out" "stage-data: "
	echo "$out"
}

# type_block NUMBER KIND NAME: prints what it printed
type_block() {
	local block=$work/blocks/$1.$2

	echo "--- block $1: $2 $3"
	case $2 in
	file) install -m 0644 "$block" "$base/pfs/home/alice/examples/$3" ;;
	site) install -m 0644 "$block" "$base$3" ;;
	user) in_home bash -eu <"$block" 2>&1 || fail "block $1 of the user's" ;;
	user-fails) type_refused in_home <"$block" ;;
	other-fails) type_refused as bob <"$block" ;;
	root) type_as_root <"$block" 2>&1 || fail "block $1 of root's" ;;
	esac
}

# type_guide NAME: prints all
type_guide() {
	local number kind name

	"$here/guide-blocks" "$docs/$1.md" "$work/blocks" >"$work/list" || fail "$1.md"
	while read -r number kind name <&3; do
		type_block "$number" "$kind" "$name"
	done 3<"$work/list"
}

# A script has read something on each of its nodes.
script_has_read() {
	local out nodes

	job_wait "$1"
	out=$(output_of "$1")
	assert_eq COMPLETED "$(job_state "$1")" "end of $2: $out"
	nodes=$(grep -o -- '--nodes=[0-9]*' "$base/pfs/home/alice/examples/$2" | cut -d= -f2)
	assert_eq "$nodes" "$(sed -n 's/^has \([^ ]*\) [1-9].*/\1/p' <<<"$out" | sort -u | wc -l)" "nodes of $2 that have read: $out"
}

test_what_the_users_guide_says() {
	local name id
	local -A ids

	guide_set_up
	type_guide user >"$work/out" || fail "$(cat "$work/out")"
	for name in $(sed -n 's/^[0-9]* file //p' "$work/list"); do
		ids[$name]=$(in_home sbatch --parsable "$name")
	done
	for name in "${!ids[@]}"; do
		script_has_read "${ids[$name]}" "$name"
	done
	for id in $(sed -n 's/^Submitted batch job //p' "$work/out"); do
		script_has_read "$id" first.sh
	done
	assert_eq 2 "$(grep -c '^Submitted batch job' "$work/out")" "jobs that the guide submits"
	assert_match "$(cat "$work/out")" "has ctl 11 " # stagectl run, with nothing left out
}

test_what_the_first_steps_say() {
	guide_set_up
	type_guide getting-started >"$work/out" || fail "$(cat "$work/out")"
	script_has_read "$(sed -n 's/^Submitted batch job //p' "$work/out")" started.sh
	assert_contains "$(cat "$work/out")" "--stage-data=[NAME=]SOURCE"
	assert_contains "$(cat "$work/out")" "has ctl 11 " # stagectl run, with nothing left out
}

test_what_the_admins_guide_says() {
	guide_set_up
	# The reaper, which the guide runs, counts what is left over.
	at_end "on n1 rm -rf /var/lib/node-exporter /run/stage-data/.metrics"
	site_conf <<<$'[limits]\nKeepFreeMemory=64M'
	type_guide admin >"$work/out" || fail "$(cat "$work/out")"
	assert_contains "$(cat "$work/out")" "no errors"
	assert_contains "$(cat "$work/out")" "off until the file system is back"
}
