-- gpulint at submission: runs as the user, before slurmctld sees the job. Install page: docs/gate.md.
--
-- Environment of the site (set it in /etc/slurm/gpulint.env as NAME=VALUE lines, or in the user's environment):
--   GPULINT_GATE_COMMAND   the gpulint executable        (default: gpulint)
--   GPULINT_GATE_POLICY    the policy file               (default: /etc/slurm/gpulint-gate.toml)
--   GPULINT_GATE_TIMEOUT   seconds after which a job is let through whatever gpulint does (default: 10)
--   GPULINT_GATE_STAMP     1: leave "gpulint:checked=passed" in the job's comment, for job_submit.lua (default: 0)
--
-- Whatever fails here lets the job through.

local SETTINGS = "/etc/slurm/gpulint.env"

-- Options that the gate reads; others stay here.
local HOLDS = {
    "gres", "gpus", "gpus-per-node", "gpus-per-socket", "gpus-per-task", "tres-per-node", "tres-per-task", "nodes",
    "ntasks", "ntasks-per-node", "ntasks-per-gpu", "cpus-per-task", "cpus-per-gpu", "mem-per-gpu", "partition",
    "array", "comment",
}

local function settings()
    local found = {}
    local file = io.open(os.getenv("GPULINT_GATE_SETTINGS") or SETTINGS, "r")
    if file then
        for line in file:lines() do
            local name, value = line:match("^%s*([%w_]+)%s*=%s*(.-)%s*$")
            if name then found[name] = value end
        end
        file:close()
    end
    return function(name, default) return os.getenv(name) or found[name] or default end
end

local function quoted(text)
    return "'" .. tostring(text):gsub("'", "'\\''") .. "'"
end

local ESCAPES = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }

local function json(text)
    local escaped = tostring(text):gsub('[%c"\\\127]', function(char)
        return ESCAPES[char] or string.format("\\u%04x", char:byte())
    end)
    return '"' .. escaped .. '"'
end

local function object(pairs_of)
    local parts = {}
    for _, pair in ipairs(pairs_of) do
        parts[#parts + 1] = json(pair[1]) .. ": " .. pair[2]
    end
    return "{" .. table.concat(parts, ", ") .. "}"
end

-- An option as sbatch takes it; nil if it was not given. Slurm writes "unset", "0" or "-2" then, "gres:gpu:4" for
-- --gres=gpu:4 and "2-0" for --nodes=2.
local function given(value)
    if type(value) ~= "string" or value == "" or value == "unset" or value == "0" or value == "-2" then return nil end
    return (value:gsub("gres:", ""):gsub("^(%d+)%-0$", "%1"))
end

-- What sbatch was given, as `gpulint gate --submission` reads it; nil if there is nothing to judge.
local function submission(options)
    local kind = options["type"]
    if kind ~= nil and kind ~= "sbatch" then return nil end -- salloc and srun start what people type
    local fields = {}
    local argv = options["argv"] or {}
    if options["wrap"] and options["wrap"] ~= "" then
        fields[#fields + 1] = { "wrap", json(options["wrap"]) }
    elseif argv[1] then
        fields[#fields + 1] = { "script", json(argv[1]) }
    else
        return nil -- the script comes from standard input, which is sbatch's alone
    end
    fields[#fields + 1] = { "workdir", json(options["chdir"] or os.getenv("PWD") or ".") }
    local held = {}
    for _, name in ipairs(HOLDS) do
        local value = given(options[name])
        if value then held[#held + 1] = { name, json(value) } end
    end
    fields[#fields + 1] = { "options", object(held) }
    local allowed = os.getenv("GPULINT_ALLOW")
    if allowed then fields[#fields + 1] = { "env", object({ { "GPULINT_ALLOW", json(allowed) } }) } end
    return object(fields)
end

-- Leave word for job_submit.lua in the comment of a job.
local function stamp(options, get, word)
    if get("GPULINT_GATE_STAMP", "0") ~= "1" then return end
    local comment = given(options["comment"])
    options["comment"] = (comment and comment .. " " or "") .. "gpulint:checked=" .. word
end

local function judge(options)
    local text = submission(options)
    if text == nil then return slurm.SUCCESS end
    local get = settings()
    local policy = get("GPULINT_GATE_POLICY", "/etc/slurm/gpulint-gate.toml")
    local name = os.tmpname()
    local file = io.open(name, "w")
    if not file then return slurm.SUCCESS end
    file:write(text)
    file:close()
    local command = table.concat({
        "timeout --kill-after=1", quoted(get("GPULINT_GATE_TIMEOUT", "10")),
        quoted(get("GPULINT_GATE_COMMAND", "gpulint")), "gate --policy", quoted(policy), "--submission", quoted(name),
        "2>&1 </dev/null; echo gpulint-exit:$?",
    }, " ")
    local pipe = io.popen(command, "r")
    local code, lines = nil, {}
    if pipe then
        for line in pipe:lines() do
            local exit = line:match("^gpulint%-exit:(%d+)$")
            if exit then code = tonumber(exit) else lines[#lines + 1] = line end
        end
        pipe:close()
    end
    os.remove(name)
    if code ~= 0 and code ~= 1 then -- missing, timed out, crashed or misconfigured
        stamp(options, get, "unjudged")
        return slurm.SUCCESS
    end
    for _, line in ipairs(lines) do
        slurm.log_error("%s", line)
    end
    if code == 1 then return slurm.ERROR end
    stamp(options, get, "passed")
    return slurm.SUCCESS
end

function slurm_cli_setup_defaults(options, early_pass)
    return slurm.SUCCESS
end

function slurm_cli_pre_submit(options, offset)
    local ok, answer = pcall(judge, options)
    if ok then return answer end
    return slurm.SUCCESS
end

function slurm_cli_post_submit(offset, job_id, step_id)
    return slurm.SUCCESS
end
