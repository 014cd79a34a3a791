--! include merge
-- Records of one or several orders.
--
-- KEYS  sorted sets by creation
-- ARGV  what keys of records begin with, lowest and highest creation, offset, number of records
--       (-1: all), '1' for newest first
-- Answer: total, then the records
local low, high, offset, count = ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local newest = ARGV[6] == '1'
local total, sets = 0, {}
for place, key in ipairs(KEYS) do
  total = total + redis.call('ZCOUNT', key, low, high)
  local limit = count < 0 and {} or {'LIMIT', 0, offset + count}
  if newest then
    sets[place] = redis.call('ZREVRANGEBYSCORE', key, high, low, 'WITHSCORES', unpack(limit))
  else
    sets[place] = redis.call('ZRANGEBYSCORE', key, low, high, 'WITHSCORES', unpack(limit))
  end
end
local found = merged(sets, newest)
local last = count < 0 and #found or math.min(#found, offset + count)
local keys = {}
for at = offset + 1, last do
  keys[#keys + 1] = ARGV[1] .. found[at][2]
end
return {total, values_of(keys)}
