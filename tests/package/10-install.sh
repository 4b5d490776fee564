# The packages themselves, and in a clean root. Sourced by tests/package/run.
# shellcheck shell=bash

readonly debs=(stage-data slurm-wlm-stage-data-plugin)

# All files of the root but those of dpkg and apt, and of what needn't be ours
list_files() {
	in_root find / -xdev \( -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/cache -o -path /var/log \
		-o -path /opt -o -path /tmp -o -path /etc/ld.so.cache \) -prune -o -print | sort
}

# deb_file old|new PACKAGE: as the root sees it
deb_file() {
	echo "/opt/packages/$1/$2_$(version_of "$1")_$(dpkg --print-architecture).deb"
}

# Fails where an error or a warning is found.
test_lintian_has_nothing_to_say() {
	lintian --allow-root --fail-on error,warning "$dir"/old/*.changes
}

# An epoch, or a release of Slurm that is not in the list, would come out wrong.
test_plugin_depends_on_one_release_of_slurm() {
	local depends release

	depends=$(dpkg-deb -f "$dir"/old/slurm-wlm-stage-data-plugin_*.deb Depends)
	release=$(dpkg-query -W -f '${Version}' libslurm-dev | cut -d. -f1,2)
	[[ $release =~ ^[0-9]{2}\.[0-9]{2}$ ]]
	[[ $depends == *"slurm-wlm-basic-plugins (>= $release)"* ]]
	[[ $depends == *"slurm-wlm-basic-plugins (<< $release.99)"* ]]
	[[ $depends == *"stage-data (= $(version_of old))"* ]]
	[[ $depends =~ (^|\ )libslurm[0-9] ]] # stage-slurm's
	[[ $(dpkg-deb -f "$dir"/old/stage-data_*.deb Depends) != *slurm* ]]
}

slurm_packages_there() {
	# shellcheck disable=SC2016
	in_root dpkg-query -W -f '${db:Status-Status} ${Package}\n' 'slurm*' 2>/dev/null | grep '^installed ' || true
}

# assert_links_lead_somewhere DIRECTORY: those of its documents to each other, which are many
assert_links_lead_somewhere() {
	local file link n=0

	while IFS=: read -r file link; do
		[[ $link != *://* ]] || continue
		n=$((n + 1))
		[[ -e $(dirname "$file")/$link ]] || fail "$file: $link is not there"
	done < <(grep -roP --include='*.md' '\]\(\K[^)#]+' "$1")
	((n >= 20)) || fail "$n links in $1"
}

# What the package names is enough, also for what is loaded by name (libarchive).
test_installs_by_itself_and_leaves_nothing() {
	local before after slurm program

	before=$dir/before after=$dir/after slurm=$(slurm_packages_there)
	# Of what it brings along nothing is to be told from it.
	apt install "$(deb_file old stage-data)" >"$dir/apt.log" 2>&1 || { cat "$dir/apt.log"; return 1; }
	apt purge stage-data
	list_files >"$before"
	apt install "$(deb_file old stage-data)"
	list_files >"$dir/installed"
	[[ $(slurm_packages_there) == "$slurm" ]]
	for program in /usr/bin/stagectl /usr/libexec/stage-data/{stagingd,stage-{keeper,worker,fetch,helper,mover,broadcast}}; do
		in_root test -x "$program"
		[[ $(in_root ldd "$program") != *"not found"* ]] || fail "$program lacks libraries"
	done
	in_root ldconfig -p | grep -q 'libarchive\.so\.13'
	for program in stagingd stage-{worker,fetch,helper,broadcast}; do
		[[ $(in_root stat -c '%a %U' /usr/libexec/stage-data/$program) == '711 root' ]]
	done
	[[ -e $root/etc/stage-data/stage-data.conf && -d $root/etc/stage-data/conf.d ]]
	[[ $(in_root stagectl --version) == *"$(version_of old)"* ]]
	in_root stagectl check-config
	assert_links_lead_somewhere "$root/usr/share/doc/stage-data"
	in_root test -e /etc/systemd/system/timers.target.wants/stage-data-reap.timer
	# Without Slurm: an archive by libarchive, as a user
	mkdir -p "$root/tmp/try/x"
	echo content >"$root/tmp/try/x/file"
	tar -C "$root/tmp/try" -cjf "$root/tmp/try/x.tar.bz2" x
	printf '[source try]\nMatch=/tmp/try/**\n' >"$root/etc/stage-data/conf.d/try.conf"
	# shellcheck disable=SC2016
	in_root setpriv --reuid 4001 --regid 4001 --clear-groups stagectl run --stage-data=d=/tmp/try/x.tar.bz2 -- \
		sh -c 'find "$STAGE_DATA_PATH_D" -name file -exec cat {} +' | grep -x content
	rm -r "$root/tmp/try" "$root/etc/stage-data/conf.d/try.conf"
	apt purge stage-data
	list_files >"$after"
	diff "$before" "$after"
	assert_not in_root test -e /run/stage-data
}

# A site's own configuration stays on removal, and through an upgrade, unasked.
test_configuration_is_the_sites() {
	apt install "$(deb_file old stage-data)"
	echo '# the site was here' >>"$root/etc/stage-data/stage-data.conf"
	apt install "$(deb_file new stage-data)"
	[[ $(in_root stagectl --version) == *"$(version_of new)"* ]]
	[[ $(tail -n 1 "$root/etc/stage-data/stage-data.conf") == '# the site was here' ]]
	apt remove stage-data
	[[ $(tail -n 1 "$root/etc/stage-data/stage-data.conf") == '# the site was here' ]]
	apt purge stage-data
	[[ ! -e $root/etc/stage-data ]]
}
