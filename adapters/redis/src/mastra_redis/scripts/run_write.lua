--! include runs
-- Write records of runs, all or none.
--
-- ARGV  [1] what keys of records begin with, [2] the same of the index, [3] now,
--       then per run: end of the key, member, head of the record up to the run id, name, run id,
--       resource, key where the caller put the record up to the end of its snapshot, created,
--       updated, status, agent, thread, resource inside, claim, expiry of the claim, projection,
--       wanted version ('*' any, '' none, '@' length ':' updated, SHA-1), wanted claim ('' any)
-- The caller moves the record in place, in the same transaction; if it may not, it is gone.
-- Answer: {1, created, updated, resource ...} or {0, number of the run, reason, record, claim}
local now = ARGV[3]
local WORDS = 18
local runs = {}
for first = 4, #ARGV, WORDS do
  runs[#runs + 1] = {
    key = ARGV[first], member = ARGV[first + 1], head = ARGV[first + 2],
    name = ARGV[first + 3], run = ARGV[first + 4], resource = ARGV[first + 5],
    from = ARGV[first + 6], given_created = ARGV[first + 7],
    given_updated = ARGV[first + 8], status = ARGV[first + 9], agent = ARGV[first + 10],
    thread = ARGV[first + 11], inner = ARGV[first + 12], claim = ARGV[first + 13],
    expires = ARGV[first + 14], projection = ARGV[first + 15],
    version = ARGV[first + 16], wanted_claim = ARGV[first + 17],
  }
end

local function refused(...)
  for _, run in ipairs(runs) do
    redis.call('DEL', run.from)
  end
  return {0, ...}
end

for number, run in ipairs(runs) do
  local row = known(run.key)
  run.row = row
  run.holds = SNAPSHOTS .. place_of(run.key, row and row[4] or '')
  local value = false
  if row and is_fresh(run.key, row)
      and redis.call('GETRANGE', run.holds, 0, #run.head - 1) == run.head then
    run.old = {created = row[2], updated = row[3], resource = row[5], claim = row[6]}
  else
    value = redis.call('GET', run.holds)
    if value then
      run.old = looked_into(value, run.name, run.run)
      if not run.old then
        return refused(number, 'taken', value, false)
      end
    end
  end
  if string.sub(run.version, 1, 1) == '@' then
    -- Our own writes of a run never have the same time, so length and time tell them apart.
    if value or not run.old or run.version ~= '@' .. row[1] .. ':' .. row[3] then
      return refused(number, 'version', false, false)
    end
  elseif run.version ~= '*' then
    value = value or (run.old and redis.call('GET', run.holds)) or false
    if (value and redis.sha1hex(value) or '') ~= run.version then
      return refused(number, 'version', value, false)
    end
  end
  if run.wanted_claim ~= '' and (run.old and run.old.claim or '') ~= run.wanted_claim then
    return refused(number, 'claim', false, run.old and run.old.claim or false)
  end
end

local answer = {1}
for _, run in ipairs(runs) do
  local old = run.old
  run.created = old and old.created or (run.given_created ~= '' and run.given_created or now)
  run.updated = next_time(
    run.given_updated ~= '' and run.given_updated or now, old and old.updated)
  local kept = ''
  if run.resource == '' and old and old.resource ~= '' then
    run.resource = old.resource
    kept = ',"resourceId":' .. old.resource
  end
  if run.holds ~= SNAPSHOTS .. run.key then
    redis.call('DEL', run.holds)
  end
  run.where = ''
  run.length = redis.call('APPEND', run.from,
    kept .. ',' .. tail_of(run.created, run.updated))
  place(run, run.row)
  answer[#answer + 1] = run.created
  answer[#answer + 1] = run.updated
  answer[#answer + 1] = run.resource
end
return answer
