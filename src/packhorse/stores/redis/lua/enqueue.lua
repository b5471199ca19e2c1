-- Store jobs, all or none; return, for each that was not created, its number and the id of the existing job.
-- args: new_jobs:3
-- needs: arguments head_in_part conclude_if_room create
local ids, parts, heads_of_jobs, taken = column(new_jobs, 1), column(new_jobs, 2), {}, {}
for i = 1, #ids do heads_of_jobs[i] = head_in_part(parts[i]) end
local known = prefetch_jobs(ids, heads_of_jobs)
for i = 1, #ids do
  local id, made = create(ids[i], known[i], heads_of_jobs[i], parts[i], cell(new_jobs, i, 3))
  if not made then
    taken[#taken + 1] = i
    taken[#taken + 1] = id
  end
end
conclude_if_room()
return taken
