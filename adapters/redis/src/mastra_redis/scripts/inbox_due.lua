-- Records of an index whose members end in the end of their keys.
--
-- KEYS  the index
-- ARGV  highest score, offset, number of members, what keys of records begin with, the same of
--       sidecars
-- Answer: the time, members, records, sidecars
local members = redis.call(
  'ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', ARGV[2], ARGV[3])
local records, sidecars = {}, {}
for place, member in ipairs(members) do
  local _, ended = string.find(member, '\0\1', 1, true)
  local name = string.sub(member, (ended or 0) + 1)
  records[place] = redis.call('GET', ARGV[4] .. name)
  sidecars[place] = redis.call('GET', ARGV[5] .. name)
end
return {redis.call('TIME'), members, records, sidecars}
