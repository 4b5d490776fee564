-- Has movers sent for when users call sbatch as they always do: what `stagectl submit` does,
-- without a word from them (stagectl(1), submit).
--
-- For /etc/slurm/cli_filter.lua of the login nodes, with CliFilterPlugins=lua in slurm.conf. Where
-- there is a cli_filter.lua already, its slurm_cli_pre_submit() calls stage_data_bring(options,
-- offset) and returns what that returns, unless it is slurm.SUCCESS.

local stagectl = "@STAGECTL@"

local function quoted(text)
	return "'" .. text:gsub("'", "'\\''") .. "'"
end

-- What was given of the job's options; Slurm says "unset" of some that were not.
local function words_of(options, offset)
	local words = ""
	local cmdline = io.open("/proc/self/cmdline")

	for _, name in ipairs({ "account", "dependency", "clusters" }) do
		local value = options[name]

		if type(value) == "string" and value ~= "" and value ~= "unset" then
			words = words .. " " .. quoted("--" .. name .. "=" .. value)
		end
	end
	if options["test-only"] == "set" then
		words = words .. " --test-only"
	end
	if offset > 0 or (cmdline and cmdline:read("*a"):find("\0:\0", 1, true)) then
		words = words .. " --het"
	end
	if cmdline then
		cmdline:close()
	end
	return words
end

-- The plugin has noted what is to be staged, if anything is. What stagectl prints is what the job
-- has to wait for; what it has to say to the user it says itself.
function stage_data_bring(options, offset)
	if options["type"] ~= "sbatch" or os.getenv("STAGE_SUBMIT_FD") == nil then
		return slurm.SUCCESS
	end
	local pipe = io.popen("exec " .. quoted(stagectl) .. " submit --filter" ..
			      words_of(options, offset))
	local dependency = pipe:read("*a"):gsub("\n$", "")

	if not pipe:close() then
		return slurm.ERROR
	end
	if dependency ~= "" then
		options["dependency"] = dependency
		options["kill-on-invalid-dep"] = "yes"
	end
	return slurm.SUCCESS
end

function slurm_cli_setup_defaults(options, early)
	return slurm.SUCCESS
end

function slurm_cli_pre_submit(options, offset)
	return stage_data_bring(options, offset)
end

function slurm_cli_post_submit(offset, job, step)
	return slurm.SUCCESS
end
