-- Write down the version of our additions, unless a newer one is there.
--
-- KEYS  the hash of versions
-- ARGV  component, version
-- Answer: the version that is there now
local found = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or '0')
if found < tonumber(ARGV[2]) then
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
  return tonumber(ARGV[2])
end
return found
