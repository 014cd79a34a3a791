--! include runs
-- Delete runs with everything that is known of them.
--
-- ARGV  [1] what keys of records begin with, [2] the same of the index, [3] wanted claim of the
--       first one ('' any), [4] its name, [5] its run id, [6] 'gone' to forget only those whose
--       records are gone, 'old' to delete only those last written before [7],
--       then per run: end of the key, member
-- Answer: {1, how many}, or {0, claim}
local only, limit = ARGV[6], ARGV[7]
if ARGV[3] ~= '' then
  local name = ARGV[8]
  local row = known(name)
  local key = SNAPSHOTS .. place_of(name, row and row[4] or '')
  local claim = nil
  if row and is_fresh(name, row) then
    claim = row[6]
  else
    local value = redis.call('GET', key)
    local old = value and looked_into(value, ARGV[4], ARGV[5])
    claim = old and old.claim
  end
  if not claim then
    return {1, 0}
  end
  if claim ~= ARGV[3] then
    return {0, claim}
  end
end
local count = 0
for at = 8, #ARGV, 2 do
  local name, member = ARGV[at], ARGV[at + 1]
  local row = known(name)
  local key = SNAPSHOTS .. place_of(name, row and row[4] or '')
  local goes = true
  if only == 'gone' then
    goes = redis.call('EXISTS', key) == 0
  elseif only == 'old' then
    goes = row and row[3] < limit
  end
  if goes then
    redis.call('DEL', key)
    if row then
      count = count + 1
      forget(name, member, row)
    end
  end
end
return {1, count}
