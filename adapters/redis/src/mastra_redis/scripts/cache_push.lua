-- Count, and add an element with its number as the first member (pubsub_and_lease.md 9.4).
--
-- KEYS  list, counter, epoch
-- ARGV  the element as JSON text, seconds that keys are kept (0: for ever), number of elements
--       to keep, ms of the caller's clock
-- Answer: number, epoch
local index = redis.call('INCR', KEYS[2]) - 1
local epoch = tonumber(redis.call('GET', KEYS[3]) or 0)
if index == 0 or epoch == 0 then
  local time = redis.call('TIME')
  local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
  epoch = math.max(epoch + 1, now)
  redis.call('SET', KEYS[3], string.format('%.0f', epoch))
end
if index == 0 then
  redis.call('DEL', KEYS[1]) -- what an older numbering left
end
local body = string.sub(ARGV[1], 2)
redis.call('RPUSH', KEYS[1], '{"index":' .. index .. (body == '}' and '' or ',') .. body)
redis.call('LTRIM', KEYS[1], -tonumber(ARGV[3]), -1)
if tonumber(ARGV[2]) > 0 then
  for _, key in ipairs(KEYS) do
    redis.call('EXPIRE', key, ARGV[2])
  end
end
return {index, epoch}
