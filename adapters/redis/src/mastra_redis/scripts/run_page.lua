--! include runs
-- One page of runs of one order, newest created first, with their records.
--
-- ARGV  [1] what keys of records begin with, [2] the same of the index, [3] lowest and
--       [4] highest creation, [5] offset, [6] number of runs (-1: all), [7] the sorted set
-- Answer: total, then per run: member, its record (false if it is gone)
local key = INDEX .. ARGV[7]
local count = tonumber(ARGV[6])
local limit = count < 0 and {} or {'LIMIT', ARGV[5], count}
local members = redis.call('ZREVRANGEBYSCORE', key, ARGV[4], ARGV[3], unpack(limit))
local answer = {redis.call('ZCOUNT', key, ARGV[3], ARGV[4])}
for _, member in ipairs(members) do
  local run, name = string.match(member, '^(.-)%z\1(.-)%z\1$')
  local own = string.gsub(name, '%z\255', '\0') .. ':run_id:' .. string.gsub(run, '%z\255', '\0')
  local row = known(own)
  answer[#answer + 1] = member
  answer[#answer + 1] = redis.call('GET', SNAPSHOTS .. place_of(own, row and row[4] or ''))
end
return answer
