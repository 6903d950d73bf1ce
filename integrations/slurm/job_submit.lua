-- The stamp of gpulint's gate, read by slurmctld. Install page: docs/gate.md.
--
-- With GPULINT_GATE_STAMP=1 the cli_filter leaves "gpulint:checked=passed" (or "=unjudged", if gpulint failed) in the
-- comment of a batch job. This plugin copies that into the administrator's comment, where users cannot change it later
-- and accounting keeps it, and says so to users whose batch job holds GPUs and has no stamp. A user can write the stamp
-- by hand: it shows who went around the gate by mistake, it is no security boundary.
--
-- Set REQUIRED to refuse batch jobs that hold GPUs and have no stamp.

local REQUIRED = false
local FIELDS = { "tres_per_node", "tres_per_job", "tres_per_socket", "tres_per_task", "gres" }

local function holds_gpus(job)
    for _, name in ipairs(FIELDS) do
        local value = job[name]
        if type(value) == "string" and (value:find("gpu", 1, true) or value:find("shard", 1, true)) then return true end
    end
    return false
end

local function stamped(job)
    local comment = job["comment"]
    return type(comment) == "string" and comment:match("gpulint:checked=(%a+)") or nil
end

local function check(job)
    if type(job["script"]) ~= "string" or job["script"] == "" or not holds_gpus(job) then return slurm.SUCCESS end
    local stamp = stamped(job)
    job["admin_comment"] = "gpulint:checked=" .. (stamp or "no")
    if stamp then return slurm.SUCCESS end
    if REQUIRED then
        slurm.log_user("this job holds GPUs and was not checked by gpulint: submit it with sbatch on a login node")
        return slurm.ERROR
    end
    slurm.log_user("this job holds GPUs and was not checked by gpulint")
    return slurm.SUCCESS
end

function slurm_job_submit(job, partitions, uid)
    local ok, answer = pcall(check, job)
    if ok then return answer end
    slurm.log_info("gpulint: %s", tostring(answer))
    return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, uid)
    return slurm.SUCCESS
end

return slurm.SUCCESS
