--! include runs
-- Index a record that somebody else wrote, if it is still as it was looked at.
--
-- ARGV  [1] what keys of records begin with, [2] the same of the index, then: end of the key,
--       member, '' or the resource in whose key it lies, SHA-1 of the record, created, updated,
--       name, resource, status, agent, thread, resource inside, claim, expiry, projection,
--       '' or the end of another key of this run that is older and goes, its SHA-1
-- Answer: 1 if it was indexed
local run = {
  key = ARGV[3], member = ARGV[4], where = ARGV[5], created = ARGV[7], updated = ARGV[8],
  name = ARGV[9], resource = ARGV[10], status = ARGV[11], agent = ARGV[12],
  thread = ARGV[13], inner = ARGV[14], claim = ARGV[15], expires = ARGV[16],
  projection = ARGV[17],
}
local value = redis.call('GET', SNAPSHOTS .. place_of(run.key, run.where))
if not value or redis.sha1hex(value) ~= ARGV[6] then
  return 0
end
if ARGV[18] ~= '' then
  local older = redis.call('GET', SNAPSHOTS .. ARGV[18])
  if older and redis.sha1hex(older) ~= ARGV[19] then
    return 0
  end
  redis.call('DEL', SNAPSHOTS .. ARGV[18])
  redis.call('HDEL', LONG, ARGV[18])
end
run.length = #value
place(run, known(run.key))
return 1
