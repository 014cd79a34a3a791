--! include runs
-- Write records of runs, all or none.
--
-- ARGV  [1] what keys of records begin with, [2] the same of the index, [3] now,
--       then per run: end of the key, member, head of the record up to the run id, name, run id,
--       resource, snapshot, created, updated, status, agent, thread, resource inside, claim,
--       expiry of the claim, projection, wanted version ('*' any, '' none, SHA-1),
--       wanted claim ('' any), '' or the key from which the caller moves the record in place
-- Answer: {1, created, updated, resource ...} or {0, number of the run, reason, record, claim}
local now = ARGV[3]
local WORDS = 19
local runs = {}
for first = 4, #ARGV, WORDS do
  runs[#runs + 1] = {
    key = ARGV[first], member = ARGV[first + 1], head = ARGV[first + 2],
    name = ARGV[first + 3], run = ARGV[first + 4], resource = ARGV[first + 5],
    snapshot = ARGV[first + 6], given_created = ARGV[first + 7],
    given_updated = ARGV[first + 8], status = ARGV[first + 9], agent = ARGV[first + 10],
    thread = ARGV[first + 11], inner = ARGV[first + 12], claim = ARGV[first + 13],
    expires = ARGV[first + 14], projection = ARGV[first + 15],
    version = ARGV[first + 16], wanted_claim = ARGV[first + 17], from = ARGV[first + 18],
  }
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
        return {0, number, 'taken', value, false}
      end
    end
  end
  if run.version ~= '*' then
    value = value or (run.old and redis.call('GET', run.holds)) or false
    if (value and redis.sha1hex(value) or '') ~= run.version then
      return {0, number, 'version', value, false}
    end
  end
  if run.wanted_claim ~= '' and (run.old and run.old.claim or '') ~= run.wanted_claim then
    return {0, number, 'claim', false, run.old and run.old.claim or false}
  end
end

local answer = {1}
for _, run in ipairs(runs) do
  local old = run.old
  run.created = old and old.created or (run.given_created ~= '' and run.given_created or now)
  run.updated = next_time(
    run.given_updated ~= '' and run.given_updated or now, old and old.updated)
  if run.resource == '' and old then
    run.resource = old.resource
  end
  local record = run.head
    .. (run.resource ~= '' and ',"resourceId":' .. run.resource or '')
    .. ',"snapshot":' .. run.snapshot .. ',' .. tail_of(run.created, run.updated)
  local key = SNAPSHOTS .. run.key
  if run.holds ~= key then
    redis.call('DEL', run.holds)
  end
  run.where, run.length = '', #record
  place(run, run.row)
  redis.call('SET', run.from ~= '' and run.from or key, record)
  answer[#answer + 1] = run.created
  answer[#answer + 1] = run.updated
  answer[#answer + 1] = run.resource
end
return answer
