# A job reads what the source contains: the same bytes, modes (without set-id bits) and links. The
# expected result is made by the tool that users would have called.

# same_as REFERENCE ITEM [SBATCH OPTION...]: REFERENCE is a shell command that the job runs in an
# empty directory to make what ITEM, named t, must look like.
same_as() {
	local reference=$1 item=$2 out

	shift 2
	out=$(job_run alice -N1 --stage-data="t=$item" "$@" <<-EOS
	set -e
	mkdir /tmp/reference.\$SLURM_JOB_ID && cd /tmp/reference.\$SLURM_JOB_ID
	trap 'chmod -R u+rwx . && rm -rf /tmp/reference.\$SLURM_JOB_ID \$HOME/\$SLURM_JOB_ID.*' EXIT
	$reference
	/srv/pfs/data-tool manifest . >~/\$SLURM_JOB_ID.want
	/srv/pfs/data-tool manifest "\$STAGE_DATA_PATH_T" >~/\$SLURM_JOB_ID.got
	diff ~/\$SLURM_JOB_ID.want ~/\$SLURM_JOB_ID.got
	[[ -s ~/\$SLURM_JOB_ID.got ]] && echo identical
	EOS
	)
	assert_contains "$out" identical
}

same_as_tar() {
	same_as "tar -xpf $data/tree.$1" "$data/tree.$1"
}

same_as_unsquashfs() {
	same_as "unsquashfs -q -n -f -d . $data/tree.$1.sqsh >&2" "$data/tree.$1.sqsh$2"
}

has_format() {
	[[ -e $pfs/data/tree.$1 ]] || skip "$1" "this machine's tools make no $1"
}

test_tar_is_extracted_as_tar_does() { same_as_tar tar; }
test_pax_tar_is_extracted_as_tar_does() { same_as_tar pax.tar; }
test_tar_gz_is_extracted_as_tar_does() { same_as_tar tar.gz; }
test_tar_bz2_is_extracted_as_tar_does() { same_as_tar tar.bz2; }
test_tar_xz_is_extracted_as_tar_does() { same_as_tar tar.xz; }
test_tar_zst_is_extracted_as_tar_does() { same_as "zstd -dcq $data/tree.tar.zst | tar -xp" "$data/tree.tar.zst"; }
test_tar_lz4_is_extracted_as_tar_does() { same_as "lz4 -dcq $data/tree.tar.lz4 | tar -xp" "$data/tree.tar.lz4"; }
test_zip_is_extracted_as_unzip_does() { same_as "unzip -q $data/tree.zip" "$data/tree.zip"; }

test_squashfs_gzip_is_mounted() { need_fuse; same_as_unsquashfs gzip ""; }
test_squashfs_zstd_is_mounted() { need_fuse; has_format zstd.sqsh; same_as_unsquashfs zstd ""; }
test_squashfs_xz_is_mounted() { need_fuse; has_format xz.sqsh; same_as_unsquashfs xz ""; }
test_squashfs_lz4_is_mounted() { need_fuse; has_format lz4.sqsh; same_as_unsquashfs lz4 ""; }
test_squashfs_lzo_is_mounted() { need_fuse; has_format lzo.sqsh; same_as_unsquashfs lzo ""; }
test_squashfs_copied_to_memory_is_mounted() { need_fuse; same_as_unsquashfs zstd ":shm"; }
test_squashfs_copied_behind_its_mount_is_the_same() { need_fuse; same_as_unsquashfs zstd "::hydrate=copy"; }
test_tar_is_mounted_as_tar_extracts() { need_fuse; same_as "tar -xpf $data/many.tar" "$data/many.tar::method=mount"; }
test_tar_copied_to_memory_is_mounted() { need_fuse; same_as "tar -xpf $data/many.tar" "$data/many.tar:shm:method=mount"; }
test_zip_is_mounted_as_unzip_extracts() { need_fuse; same_as "unzip -q $data/tree.zip" "$data/tree.zip::method=mount"; }
test_squashfs_is_extracted_where_asked() { same_as_unsquashfs gzip "::method=extract"; }

test_directory_is_copied_as_cp_does() { same_as "cp -a $data/tree/. ." "$data/tree"; }
test_trailing_slash_means_nothing() { same_as "cp -a $data/many/. ." "$data/many/"; }
test_many_files_are_extracted() { same_as "tar -xpf $data/many.tar" "$data/many.tar"; }
test_many_files_are_copied() { same_as "cp -a $data/many/. ." "$data/many"; }
test_disk_tier_holds_the_same() { same_as "tar -xpf $data/many.tar" "$data/many.tar:ssd"; }
test_a_link_leads_to_the_source() { same_as "cp -a $data/many/. ." "$data/many::method=link"; }
test_strip_cuts_leading_directories() {
	same_as "tar -xpf $data/wrapped.tar --strip-components=2" "$data/wrapped.tar::strip=2"
}
# The names of files have three characters, those of directories two.
test_include_and_exclude_choose() {
	same_as "tar -xpf $data/many.tar && find . -type f ! -name '??1' -delete" \
		"$data/many.tar::include=??1"
	same_as "tar -xpf $data/many.tar && find . -type f -name '??1' -delete" \
		"$data/many.tar::exclude=??1"
}

test_archives_in_an_archive_are_extracted_with_nested() {
	same_as "tar -xf $data/nested.tar && for t in part*.tar; do mkdir \${t%.tar}
		tar -xf \$t -C \${t%.tar} && rm \$t; done" "$data/nested.tar::nested"
}

test_an_archive_copied_stays_an_archive() {
	local out

	out=$(job_run alice --stage-data="t=$data/tree.tar.gz::method=copy" \
		<<<"cmp \$STAGE_DATA_PATH_T $data/tree.tar.gz && echo identical")
	assert_contains "$out" identical
}

test_a_file_is_copied() {
	local out

	out=$(job_run alice --stage-data="$data/flat/07.bin" \
		<<<"cmp \$STAGE_DATA_PATH_D_07 $data/flat/07.bin && echo identical")
	assert_contains "$out" identical
}

test_a_set_has_a_list_of_its_paths() {
	local out

	out=$(job_run alice --stage-data="set=$data/flat/{00..09}.bin" <<-'EOS'
	wc -l <"$STAGE_DATA_LIST_SET"
	while read -r f; do
		cmp "$f" "/srv/pfs/data/flat/${f##*/}" && [[ $f == "$STAGE_DATA_PATH_SET"/* ]] && echo same
	done <"$STAGE_DATA_LIST_SET" | wc -l
	EOS
	)
	assert_eq "10 10" "$(paste -sd' ' <<<"$out")" "listed, same"
}

test_several_lines_add_up() {
	local out

	out=$(job_run alice <<-'EOS'
	#!/bin/bash
	#SBATCH --stage-data=a=/srv/pfs/data/many.tar,b=/srv/pfs/data/flat
	#SBATCH --stage-data=c=/srv/pfs/data/flat/00.bin
	echo "names: $STAGE_DATA_NAMES"
	[[ -d $STAGE_DATA_PATH_A/00 && -e $STAGE_DATA_PATH_B/00.bin && -f $STAGE_DATA_PATH_C ]] && echo all
	ls "$STAGE_DATA_DIR" | paste -sd' '
	EOS
	)
	assert_contains "$out" all
	assert_contains "$out" "a b c"
}

test_a_right_checksum_passes_and_a_wrong_one_fails() {
	local sum id

	sum=$(sha256sum "$pfs/data/many.tar" | cut -d' ' -f1)
	job_run alice --stage-data="t=$data/many.tar::verify=sha256:$sum" <<<'ls $STAGE_DATA_PATH_T/00/000'
	sum=$(tr 0-9a-f 1-9a-f0 <<<"$sum")
	id=$(job_submit alice --stage-data="t=$data/many.tar::verify=sha256:$sum" <<<'echo begun')
	job_failed "$id"
	assert_lacks "$(job_output "$id")" begun
	assert_match "$(job_output "$id")" 't:.*(sha256|SHA-256|checksum)'
}
