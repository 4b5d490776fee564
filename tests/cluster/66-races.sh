# A process exchanges a directory with a link to another one, without a pause, while the path of
# the directory is checked, staged and cleaned up. Only the user who does this is affected. Each
# test makes at least 10^5 exchanges. The kernel's protection (fs.protected_symlinks) is off during
# the test.

readonly race_rounds=100000

race_prepare() {
	"$lib/no-link-protection" sleep 1000 >"$work/protection" &
	at_end "kill $!; wait $!"
	wait_until 10 grep -q . "$work/protection"
	cat "$work/protection"
	grep -q 'is 0$' "$work/protection" || note "$(cat "$work/protection"): the kernel refuses to follow others' links in /tmp"
	install -m 0755 "$here/swap-paths" "$pfs/swap-paths"
	rm -f "$pfs/home/alice/race.end"
	# What nothing of this may reach: the user's own, another user's and root's.
	rm -rf "$pfs"/home/{alice,bob}/victim "$pfs/victim"
	mkdir "$pfs"/home/{alice,bob}/victim "$pfs/victim"
	for dir in "$pfs"/home/{alice,bob}/victim "$pfs/victim"; do
		mkdir "$dir/00" "$dir/x"
		echo outside >"$dir/00/000"
		echo outside >"$dir/x/f"
	done
	chown -R 4001:4001 "$pfs/home/alice/victim"
	chown -R 4002:4002 "$pfs/home/bob/victim"
	chmod 0755 "$pfs/home/alice" "$pfs/home/bob"
	at_end "rm -rf $pfs/home/alice/victim $pfs/home/bob/victim $pfs/victim $pfs/data/race"
	find "$pfs"/home/{alice,bob}/victim "$pfs/victim" -printf '%p %u %m %s %Ts\n' | sort >"$work/victims"
}

assert_victims_are_whole() {
	find "$pfs"/home/{alice,bob}/victim "$pfs/victim" -printf '%p %u %m %s %Ts\n' | sort >"$work/victims.now"
	assert cmp "$work/victims" "$work/victims.now"
}

# race_begin NODE PAIR...: as alice, outside of any job
race_begin() {
	local node=$1

	shift
	rm -f "$pfs"/home/alice/race.end*
	as_on alice "$node" /srv/pfs/swap-paths /srv/pfs/home/alice/race.end "$@" >"$work/swaps" &
	race_pid=$!
	wait_until 10 test -e "$pfs/home/alice/race.end.n"
}

# race_end: adds to race_n
race_end() {
	touch "$pfs/home/alice/race.end"
	wait "$race_pid"
	race_n=$((${race_n:-0} + $(cat "$work/swaps")))
}

# Beneath the rule's directory stands what may be staged, behind the link what may not, though alice
# may read it: it is the rule that is raced. Fails when what was checked is opened by its name
# again.
test_a_rule_can_not_be_raced() {
	local id race_n=0

	race_prepare
	mkdir -p "$pfs/data/race/x/x" "$pfs/data/race/deep/x"
	echo inside | tee "$pfs/data/race/x/f" "$pfs/data/race/x/x/f" >"$pfs/data/race/deep/x/f"
	tar -C "$pfs/data/race/x" -cf "$pfs/data/race/x/t.tar" f
	(cd "$pfs/home/alice/victim" && tar -cf t.tar x/f && echo outside >f)
	ln -s /srv/pfs/home/alice/victim "$pfs/data/race/y"
	ln -s /srv/pfs/home/alice/victim "$pfs/data/race/deep/y"
	chown -hR 4001:4001 "$pfs/data/race" "$pfs/home/alice/victim"
	find "$pfs"/home/{alice,bob}/victim "$pfs/victim" -printf '%p %u %m %s %Ts\n' | sort >"$work/victims"
	site_conf <<<$'[source race]\nMatch=/srv/pfs/data/race/**'
	sed -i 's|^Match=/srv/pfs/\*\*|Match=/srv/pfs/gate/**|' "$base/etc/stage-data/stage-data.conf"
	race_begin n1 $data/race/x $data/race/y $data/race/deep/x $data/race/deep/y
	id=$(job_submit alice -w n1 --stage-data="g=/srv/pfs/gate/many.tar" <<-'EOS'
	inside=0 refused=0
	for ((i = 0; i < 20 || $(cat ~/race.end.n) < 100000; i++)); do
		stagectl add "a=/srv/pfs/data/race/x/f:shm" >/dev/null 2>&1
		stagectl add "b=/srv/pfs/data/race/x/t.tar:shm" >/dev/null 2>&1
		stagectl add "c=/srv/pfs/data/race/x:shm" >/dev/null 2>&1
		stagectl add "d=/srv/pfs/data/race/deep:shm" >/dev/null 2>&1
		stagectl wait a b c d >/dev/null 2>&1 && inside=$((inside + 1)) || refused=$((refused + 1))
		find "$STAGE_DATA_DIR" -type f \( -name f -o -name a \) -exec cat {} + 2>/dev/null
		stagectl release a b c d >/dev/null 2>&1
	done
	echo "over: $inside $refused"
	EOS
	)
	job_done "$id" 100
	race_end
	# A link in a directory is a link in its copy, and not followed here.
	assert_contains "$(job_output "$id")" inside
	assert_eq "" "$(job_output "$id" | grep -v '^inside$' | grep -v '^over: ' || true)" "other output"
	assert_match "$(job_output "$id")" 'over: [0-9]+ [0-9]+'
	assert_le $race_rounds "$race_n" "exchanges"
	assert_victims_are_whole
}

# What root and the user's cleaners take away at the end: the tmpfs, the tiers of both kinds. It is
# the whole way that is tried here; a removal that follows a name in the moment between two calls is
# what the unit test rmtree-race finds. Fails when rmtree follows links.
test_a_clean_up_can_not_be_raced() {
	local id race_n=0 i dir tier tmp

	race_prepare
	site_conf <<<$'[tier scratch]\nKind=disk\nPath=/tmp'
	for ((i = 0; i < 3 || race_n < race_rounds; i++)); do
		id=$(job_submit alice -w n1 --stage-data="t=$data/many.tar,d=$data/many:ssd,e=$data/many:scratch" <<-'EOS'
		for dir in "$STAGE_DATA_PATH_T" "$(readlink -f "$STAGE_DATA_PATH_D")" "$(readlink -f "$STAGE_DATA_PATH_E")"; do
			ln -s /srv/pfs/home/alice/victim "$dir/l1"
			ln -s /srv/pfs/home/bob/victim "$dir/l2"
			ln -s /srv/pfs/victim "$dir/l3"
		done
		ln -s /srv/pfs/victim "/tmp/link.$SLURM_JOB_ID"
		echo begun
		sleep 60
		EOS
		)
		job_wait_says "$id" begun 30
		dir=/run/stage-data/$id/t
		tier=/srv/local/stage-data-$id/data
		tmp=/tmp/stage-data-$id
		# By the names that they have now; what is moved aside takes them along.
		race_begin n1 $dir/data/t/00 $dir/data/t/l1 $dir/data/t/01 $dir/data/t/l2 $dir/data/t/02 $dir/data/t/l3 \
			$tier/d/00 $tier/d/l1 $tier/d/01 $tier/d/l2 $tier/d/02 $tier/d/l3 \
			$tmp/data/e/00 $tmp/data/e/l1 $tmp "/tmp/link.$id"
		sleep 1
		as alice scancel "$id"
		wait_until 20 job_nodes_clean "$id"
		race_end
		on n1 rm -rf "$tmp" "/tmp/link.$id"
		assert_victims_are_whole
	done
	assert_le $race_rounds "$race_n" "exchanges"
	on n1 bash -c 'rm -rf /tmp/stage-data-*'
	assert_nodes_fine
}
