-- Store jobs, all or none; answers number and id of the job that stands for it where none was made.
-- args: wishes:3
local ids, parts, heads_of_jobs, taken = column(wishes, 1), column(wishes, 2), {}, {}
for i = 1, #ids do heads_of_jobs[i] = head_in_part(parts[i]) end
local known = expect_jobs(ids, heads_of_jobs)
for i = 1, #ids do
  local id, made = create(ids[i], known[i], heads_of_jobs[i], parts[i], cell(wishes, i, 3))
  if not made then
    taken[#taken + 1] = i
    taken[#taken + 1] = id
  end
end
conclude_if_room()
return taken
