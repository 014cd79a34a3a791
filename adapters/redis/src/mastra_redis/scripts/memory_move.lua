--! include memory
-- Give a thread and all its messages to another resource.
--
-- ARGV  [1] what all keys begin with, [2] the same of the index, [3] now, [4] thread,
--       [5] resource, [6] '' or the key from which the caller moves the record in place
-- Answer: the new record of the thread; nothing if there is none
local now, thread, resource = ARGV[3], ARGV[4], ARGV[5]
local text = redis.call('GET', THREADS .. thread)
if not text then
  return false
end

local function given_to(record)
  local _, start, stop = member_of(record, 'resourceId')
  if start then
    return string.sub(record, 1, start - 1) .. resource .. string.sub(record, stop + 1)
  end
  return '{"resourceId":' .. resource .. ',' .. string.sub(record, 2)
end

for _, id in ipairs(redis.call('ZRANGE', order_of(thread), 0, -1)) do
  local key = message_key(thread, id)
  local message = redis.call('GET', key)
  if message then
    local old = member_of(message, 'resourceId') or '""'
    redis.call('SET', key, given_to(message))
    redis.call('ZREM', INDEX .. 'messages:' .. old, id)
    local score = redis.call('ZSCORE', order_of(thread), id)
    redis.call('ZADD', INDEX .. 'messages:' .. resource,
      string.format('%d', math.floor(tonumber(score) / 1000)), id)
    count(thread, old, -1)
    count(thread, resource, 1)
  end
end
text = given_to(text)
local stored, start, stop = member_of(text, 'updatedAt')
local updated = next_time(now, unquoted(stored))
text = string.sub(text, 1, start) .. updated .. string.sub(text, stop)
index_thread(thread, unquoted(member_of(text, 'createdAt')), updated, resource)
redis.call('SET', ARGV[6] ~= '' and ARGV[6] or THREADS .. thread, text)
return text
