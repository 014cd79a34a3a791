--! include merge
-- One page of an inbox, in the order of its index.
--
-- KEYS  sorted sets, one per status
-- ARGV  what keys of records begin with, offset, number of records (-1: all)
-- Answer: the records, and whether more follow
local prefix, offset, count = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local stop = count < 0 and -1 or offset + count
local sets = {}
for place, key in ipairs(KEYS) do
  sets[place] = redis.call('ZRANGE', key, 0, stop, 'WITHSCORES')
end
local found = merged(sets, false)
local last = count < 0 and #found or math.min(#found, offset + count)
local keys = {}
for at = offset + 1, last do
  keys[#keys + 1] = prefix .. string.sub(found[at][2], 17)
end
return {values_of(keys), #found > last and 1 or 0}
