# Defects that an administrator meets are made on a node, one by one. `stagectl doctor` reports
# each of them, with the hint, and nothing else. Then the defect is fixed as the hint says, if this
# is possible here.

# Runs on the node. Slurm's own answer is asked for once; lines of it are changed to plant what is
# Slurm's.
# shellcheck disable=SC2016,SC2034
doctors_script() {
	cat <<-'NODE'
	set -eu
	d=/tmp/doctor kernel='' n=0 bad=0
	keeper=$PREFIX/libexec/stage-data/stage-keeper
	mkdir -p $d/bin $d/etc/conf.d $d/libexec $d/metrics /run/stage-data
	cp /etc/stage-data/stage-data.conf $d/etc/
	cp "$(sed -n 's/^optional //p' /etc/slurm/plugstack.conf)" $d/stage_data.so
	for f in "$PREFIX"/libexec/stage-data/*; do ln -s "$f" $d/libexec/; done
	scontrol show config | sed "s|^PlugStackConfig .*|PlugStackConfig = $d/plugstack.conf|" >$d/slurm
	sed -i 's|^\(TaskPlugin *= \).*|\1task/cgroup|' $d/slurm
	cp $d/slurm $d/slurm.own
	printf '#!/bin/sh\ncat %s/slurm\n' $d >$d/bin/scontrol
	printf '#!/bin/sh\nexit $(cat %s/$1)\n' $d >$d/bin/systemctl
	chmod 755 $d/bin/*
	echo "optional $d/stage_data.so" >$d/plugstack.own
	conf=$d/etc/conf.d/d.conf plugstack=$d/plugstack.conf
	touch -d yesterday $d/plugstack.own # other tests may have written to the real one since slurmd began
	cp -a $d/plugstack.own $plugstack

	# A finding a line: LEVEL  SUBJECT  CAUSE -> HINT
	doctor() {
		PATH=$d/bin:$PATH STAGE_CONF=$d/etc/stage-data.conf STAGE_LIBEXEC_DIR=$d/libexec \
			$kernel "$PREFIX/bin/stagectl" doctor --quiet | paste -d ' ' - - | sed 's/  *->/ ->/'
	}

	# defect PATTERN PLANT HINT
	defect() {
		local found

		n=$((n + 1))
		eval "$2"
		found=$(doctor | grep -vxFf $d/before || true)
		if [[ $found != $1 || $found == *$'\n'* ]]; then
			printf 'planted: %s\n wanted: %s\n  found: %s\n' "$2" "$1" "$found"
			bad=1
		fi
		eval "$3"
	}

	slurm_says() { sed -i "s|^\($1 *= \).*|\1$2|" $d/slurm; }
	# Of the node's own slurmd: with a plugstack.conf of that text
	slurmd_with() {
		local pid

		pid=$(pgrep -o -x slurmd)
		kill "$pid"
		while [[ -e /proc/$pid ]]; do sleep 0.05; done
		echo "$1" >/etc/slurm/plugstack.conf
		slurmd -N "$(hostname)" </dev/null >/dev/null 2>&1
		# It loads plugins when whoever started it has gone on
		until [[ -z $1 ]] || grep -qs stage_data.so "/proc/$(pgrep -o -x slurmd)/maps"; do sleep 0.05; done
	}
	real=$(cat /etc/slurm/plugstack.conf)
	own_slurm='cp $d/slurm.own $d/slurm'
	own_plugstack='cp -a $d/plugstack.own $plugstack'
	no_conf='rm $conf'

	# One number in the file: that of the Slurm release
	other_release() {
		python3 - $d/stage_data.so "$(sed -nE 's/^SLURM_VERSION *= ([0-9.]+).*/\1/p' $d/slurm)" <<-'PY'
		import sys
		numbers = [int(x) for x in sys.argv[2].split(".")]
		data = open(sys.argv[1], "rb").read()
		own = bytes(reversed(numbers)) + b"\0"
		assert own in data
		open(sys.argv[1], "wb").write(data.replace(own, bytes([numbers[2], numbers[1] + 6, numbers[0]]) + b"\0"))
		PY
	}

	doctor >$d/before || true
	FAIL() { defect "FAIL  $1*$2*-> $3*" "$4" "$5"; }
	warn() { defect "warn  $1*$2*-> $3*" "$4" "$5"; }

	FAIL slurm 'plugstack.conf does not name stage_data.so' "add 'optional stage_data.so' on all nodes" \
		'echo >$plugstack' "$own_plugstack"
	FAIL slurm 'does not include plugstack.conf.d, where its line is' "add the line 'include plugstack.conf.d/" \
		'mkdir $plugstack.d; mv $plugstack $plugstack.d/; echo >$plugstack' 'rm -r $plugstack.d; '"$own_plugstack"
	FAIL slurm 'plugstack.conf can?t be read' "make it, with the line 'optional" 'rm $plugstack' "$own_plugstack"
	FAIL slurm 'stage_data.so: No such file' 'install the plugin, built for this Slurm' \
		'mv $d/stage_data.so $d/away' 'mv $d/away $d/stage_data.so'
	FAIL slurm 'was built for Slurm *, this is *: it is not loaded' 'install the plugin of this Slurm release' \
		'cp $d/stage_data.so $d/own; other_release' 'mv $d/own $d/stage_data.so'
	warn slurm "the plugin is 'required'" "write 'optional" 'sed -i s/optional/required/ $plugstack; touch -r $d/plugstack.own $plugstack' \
		"$own_plugstack"
	warn slurm 'slurmd is older than plugstack.conf' 'restart slurmd' 'touch -d "1 hour" $plugstack' "$own_plugstack"
	FAIL slurm 'slurmd has not loaded the plugin' 'restart slurmd (jobs continue)' 'slurmd_with ""' 'slurmd_with "$real"'
	FAIL munge 'munged can?t be reached' 'systemctl restart munge' 'mount -t tmpfs none /run/munge' 'umount /run/munge'
	warn slurm 'PrologFlags has neither Alloc nor Contain' 'PrologFlags=Contain' 'slurm_says PrologFlags "(null)"' "$own_slurm"
	warn slurm 'Slurm calls no SPANK prolog or epilog' "enable the reaper's timer" \
		'slurm_says PrologFlags RunInJob' "$own_slurm"
	warn slurm 'ConstrainRAMSpace=no: Slurm does not limit jobs to --mem*is not charged to the job' 'ConstrainRAMSpace=yes in cgroup.conf' \
		'slurm_says JobAcctGatherType jobacct_gather/linux; slurm_says ConstrainRAMSpace no; echo "ConstrainRAMSpace = no" >>$d/slurm' "$own_slurm"
	warn slurm 'ConstrainRAMSpace=no in the cgroup.conf of this node, and yes' 'the same cgroup.conf on all machines' \
		'slurm_says SLURM_CONF $d/slurm.conf; sed -i /^ConstrainRAMSpace/d $d/slurm; echo "ConstrainRAMSpace = yes" >>$d/slurm
		echo " ConstrainRAMSpace=no # as it was" >$d/cgroup.conf' "rm \$d/cgroup.conf; $own_slurm"
	warn memory 'KeepFreeMemory=*, and this node has * of memory: nothing is staged to memory' 'a smaller KeepFreeMemory=' \
		'printf "[limits]\nKeepFreeMemory=90T\n" >$conf' "$no_conf"
	warn slurm 'TaskPlugin=task/none: Slurm does not limit' 'TaskPlugin=task/cgroup' 'slurm_says TaskPlugin task/none' "$own_slurm"
	warn slurm 'job_container/tmpfs: jobs have a mount namespace' '?mount? JobNamespace=' \
		'sed -i /^JobContainerType/d $d/slurm; echo "JobContainerType = job_container/tmpfs" >>$d/slurm' "$own_slurm"
	warn slurm 'AbortAfter is 60 s and UnkillableStepTimeout 30 s' 'AbortAfter=7s' \
		'slurm_says UnkillableStepTimeout "30 sec"; printf "[daemon]\nAbortAfter=60s\n" >$conf' "$no_conf; $own_slurm"
	warn slurm 'scontrol show config? fails' 'ask again where the controller' 'rm $d/slurm' "$own_slurm"
	FAIL fuse '/dev/fuse: No such file' 'modprobe fuse' 'mv /dev/fuse /dev/fuse.away' 'mv /dev/fuse.away /dev/fuse'
	warn fuse '/dev/fuse has mode 0600' 'chmod 0666 /dev/fuse' 'chmod 0600 /dev/fuse' 'chmod 0666 /dev/fuse'
	FAIL squashfuse 'there is no squashfuse_ll: images can?t be mounted' 'install squashfuse, or ?mount? Backend=fuse' \
		'printf "[mount]\nBackend=squashfuse_ll\n" >$conf; mount --bind /dev/null /usr/bin/squashfuse_ll' \
		'umount /usr/bin/squashfuse_ll; '"$no_conf"
	warn fuse '/sys/fs/fuse/connections is not mounted' 'mount -t fusectl' \
		'umount /sys/fs/fuse/connections; kernel="$OLD 4.18"' 'kernel=; mount -t fusectl fusectl /sys/fs/fuse/connections'
	warn fusermount3 'fuse.conf has user_allow_other: whatever of root?s' 'take user_allow_other out' \
		'echo " user_allow_other # for all" >$d/fuse.conf; mount --bind $d/fuse.conf /etc/fuse.conf' 'umount /etc/fuse.conf'
	FAIL configuration 'd.conf:2: key Enable is not known in' "'stagectl check-config'" \
		'printf "[daemon]\nEnable=yes\n" >$conf' "$no_conf"
	FAIL configuration 'd.conf can be changed by users other than its owner' "'stagectl check-config'" '>$conf; chmod 666 $conf' "$no_conf"
	FAIL configuration 'd.conf has mode 0600: users and nodes*can?t' 'chmod 0644' '>$conf; chmod 600 $conf' "$no_conf"
	warn configuration '?source b? lists users or groups but excludes nobody: ?source pfs?' 'give the wider rule' \
		'printf "[source b]\nMatch=/srv/pfs/x/**\nAllowUsers=alice\n" >$conf' "$no_conf"
	warn configuration '?source b? DenyUsers=bob excludes nobody' 'put DenyUsers= into the wider rule' \
		'printf "[source b]\nMatch=/srv/pfs/x/**\nDenyUsers=bob\n" >$conf' "$no_conf"
	warn configuration '?source b? is never used: ?source pfs?' 'put the narrow rule first' \
		'printf "[source b]\nMatch=/srv/pfs/x/**\nMaxBytes=1G\n" >$conf' "$no_conf"
	warn configuration '?source pfs? AllowUsers=alcie: this machine knows no such user' 'correct the name' \
		'printf "[source pfs]\nAllowUsers=alice,alcie\n" >$conf' "$no_conf"
	warn configuration '?source pfs? AllowGroups=alcies: this machine knows no such group' 'correct the name' \
		'printf "[source pfs]\nAllowGroups=alcies\n" >$conf' "$no_conf"
	warn configuration 'conf.d/trial is not read' 'give it a name that ends in .conf' \
		'>$d/etc/conf.d/trial' 'rm $d/etc/conf.d/trial'
	warn slurm 'Partitions=mian: Slurm has no partition' 'correct the name' \
		'printf "[daemon]\nPartitions=main,mian\n" >$conf' "$no_conf"
	warn configuration "staging is switched off by $d/etc/disabled: until noon" "remove $d/etc/disabled" \
		'echo until noon >$d/etc/disabled' 'rm $d/etc/disabled'
	warn configuration 'tier x: /srv/none: No such file' 'mount it, or take the tier out' \
		'printf "[tier x]\nPath=/srv/none\n" >$conf' "$no_conf"
	FAIL configuration "tier x: $d/x is not root's alone" 'chown root and chmod 0755' \
		'printf "[tier x]\nPath=$d/x\n" >$conf; mkdir -m 0777 $d/x' 'rmdir $d/x; '"$no_conf"
	warn configuration "tier x: $d/x is memory" 'mount the disk there' \
		'printf "[tier x]\nPath=$d/x\n" >$conf; mkdir $d/x' 'rmdir $d/x; '"$no_conf"
	FAIL configuration "tier x: $d/x is read-only" 'look for errors of the disk' \
		'printf "[tier x]\nPath=$d/x\n" >$conf; mkdir $d/x; mount --bind -o ro /srv/local $d/x' \
		'umount $d/x; rmdir $d/x; '"$no_conf"
	warn configuration 'tier x: no DEST has this name' 'name the tier of the nodes? disks ?tier ssd?' \
		'printf "[tier x]\nPath=/srv/local\n" >$conf' "$no_conf"
	tokens='printf "[source x]\nMatch=/srv/x/**\nTokenDir=$d/tokens\n" >$conf'
	no_tokens="rm -r \$d/tokens; $no_conf"
	warn tokens 'source x: TokenDir=*/tokens: No such file' 'make it for users to read' "$tokens" "$no_conf"
	warn tokens 'there is no token in TokenDir=' 'make it for users' "$tokens; mkdir \$d/tokens" "$no_tokens"
	warn tokens 'users can?t read TokenDir=' 'chmod 0755' "$tokens; mkdir -m 0700 \$d/tokens; touch \$d/tokens/1" "$no_tokens"
	warn tokens 'tokens/1 can?t be read by users' 'chmod 0666' \
		"$tokens; mkdir \$d/tokens; install -m 0600 /dev/null \$d/tokens/1" "$no_tokens"
	warn log 'the log is lost' 'start a syslog daemon' 'sed -i /^LogFile/d $d/etc/stage-data.conf' \
		'cp /etc/stage-data/stage-data.conf $d/etc/'
	warn metrics 'No such file or directory; no figures' 'make the directory' \
		'printf "[metrics]\nTextfile=/srv/none/x.prom\n" >$conf' "$no_conf"
	warn metrics 'the directory is not root?s alone; no figures' 'chown root and chmod 0755' \
		'printf "[metrics]\nTextfile=$d/metrics/x.prom\n" >$conf; chmod 0775 $d/metrics' "$no_conf"
	warn fan-out '/srv/none/sbcast: No such file*each node reads' 'install Slurm?s client programs' \
		'printf "[fanout]\nMode=auto\nProgram=/srv/none/sbcast\n" >$conf' "$no_conf"
	FAIL 'run directory' "/run/stage-data is not root's alone" 'chown root:root and chmod 0711' \
		'chmod 0777 /run/stage-data' 'chmod 0711 /run/stage-data'
	FAIL helpers 'stage-keeper: No such file' 'install the package' \
		'rm $d/libexec/stage-keeper' 'ln -s $keeper $d/libexec/'
	warn helpers 'stage-worker has mode 0755: a user who can read it can trace it' 'chmod 0711 it' \
		'rm $d/libexec/stage-worker; install -m 0755 $(dirname $keeper)/stage-worker $d/libexec/' \
		'ln -sf $(dirname $keeper)/stage-worker $d/libexec/'
	FAIL helpers 'stage-helper has mode 0700: users can?t run it' 'chmod 0711 it' \
		'rm $d/libexec/stage-helper; install -m 0700 $(dirname $keeper)/stage-helper $d/libexec/' \
		'ln -sf $(dirname $keeper)/stage-helper $d/libexec/'
	FAIL helpers 'stage-worker is run by root, and others can write to it' 'look who wrote to it' \
		'rm $d/libexec/stage-worker; install -m 0775 /bin/true $d/libexec/stage-worker' \
		'ln -sf $(dirname $keeper)/stage-worker $d/libexec/'
	passwd='sed "s|^stage-data:.*|$line|" /etc/passwd >$d/passwd; mount --bind $d/passwd /etc/passwd'
	own_passwd='umount /etc/passwd'
	warn user 'has no user stage-data: on this node jobs*fail' 'useradd --system' "line=; $passwd" "$own_passwd"
	FAIL user 'stage-data has root?s uid or gid' 'give it a uid and a gid' \
		"line=stage-data:x:998:0::/:/bin/false; $passwd" "$own_passwd"
	FAIL user 'other has the uid of stage-data, 4242:' 'give it a uid that no other has' \
		"line='stage-data:x:4242:4242::/:/bin/false\nother:x:4242:100::/:/bin/sh'; $passwd" "$own_passwd"
	warn user 'the group of the user stage-data, gid *, is also that of others' 'give it a group of its own' \
		'sed "s|^stage-data:|other:|" /etc/group >$d/group; mount --bind $d/group /etc/group' 'umount /etc/group'
	warn user 'the group of the user stage-data, gid *, is also that of others' 'give it a group of its own' \
		'sed "s|^stage-data\(:.*\)|&\nother\1|" /etc/group >$d/group; mount --bind $d/group /etc/group' 'umount /etc/group'
	warn user 'the group of the user stage-data, gid *, is also that of others' 'give it a group of its own' \
		"line='stage-data:x:4242:4242::/:/bin/false\nother:x:4243:4242::/:/bin/sh'; $passwd" "$own_passwd"
	warn user 'the user stage-data has a shell' 'usermod --shell' "line=stage-data:x:4242:4242::/:; $passwd" "$own_passwd"
	FAIL kernel 'Linux 2.6* is older than this is made for' 'boot 4.18' 'kernel="setarch --uname-2.6"' 'kernel='
	FAIL breaker 'keepers have crashed, nothing is staged' "look for 'stage-keeper' in the log" \
		'echo x >/run/stage-data/.breaker' 'rm /run/stage-data/.breaker'
	warn leftovers 'job 4242424 left its run directory and 1 mount' "run '*/stage-keeper reap' as root" \
		'mkdir -p /run/stage-data/4242424/t; touch /run/stage-data/4242424/lock; mount -t tmpfs none /run/stage-data/4242424/t' \
		'"$keeper" reap'
	warn leftovers '1 directory in /run/stage-data/.trash' "run '*/stage-keeper reap' as root" \
		'mkdir -p -m 0711 /run/stage-data/.trash/4242424.7; touch /run/stage-data/.trash/4242424.7/lock' '"$keeper" reap'
	install -d -m 0700 -o 4001 -g 4001 /srv/local/stage-keep-4001 # no leftover
	warn leftovers 'tier ssd: 1 directory in /srv/local of jobs that are over' "run '*/stage-keeper reap' as root" \
		'install -d -m 0700 -o 4001 -g 4001 /srv/local/stage-data-4242424' '"$keeper" reap'
	warn timer 'stage-data-reap.timer is not enabled' 'systemctl enable --now' \
		'mkdir -p /run/systemd/system; echo 1 >$d/is-enabled; echo 3 >$d/is-active' 'echo 0 >$d/is-enabled'
	warn timer 'is enabled and does not run' 'systemctl start' : 'rm -r /run/systemd'

	doctor | diff $d/before - || bad=1
	echo "defects: $n"
	exit $bad
	NODE
}

test_the_doctor_finds_each_defect() {
	local out

	need_fuse
	at_end "on n1 rm -rf /tmp/doctor; rm -f '$base/old-kernel'"
	gcc -D_GNU_SOURCE -O2 -o "$base/old-kernel" "$here/../lib/old-kernel.c"
	out=$(doctors_script | on n1 env PREFIX="$prefix" OLD="$base/old-kernel" bash -s) || fail "$out"
	assert_eq "defects: 66" "$out" "what was planted"
}
