--! include memory
-- One page of the messages of a resource.
--
-- ARGV  [1] what all keys begin with, [2] the same of the index, [3] lowest and [4] highest time,
--       [5] offset, [6] number of messages (-1: all), [7] '1' for newest first, [8] resource
-- Answer: total, id and record of each
local low, high = ARGV[3], ARGV[4]
local key = INDEX .. 'messages:' .. ARGV[8]
local part = tonumber(ARGV[6]) < 0 and {} or {'LIMIT', ARGV[5], ARGV[6]}
local ids
if ARGV[7] == '1' then
  ids = redis.call('ZREVRANGEBYSCORE', key, high, low, unpack(part))
else
  ids = redis.call('ZRANGEBYSCORE', key, low, high, unpack(part))
end
local answer = {redis.call('ZCOUNT', key, low, high)}
for _, id in ipairs(ids) do
  local thread = redis.call('GET', THREAD_OF .. id)
  local text = thread and redis.call('GET', message_key(thread, id))
  if not text then
    redis.call('ZREM', key, id)
  end
  answer[#answer + 1] = id
  answer[#answer + 1] = text
end
return answer
