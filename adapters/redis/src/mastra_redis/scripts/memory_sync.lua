--! include memory
-- Count the messages of threads anew, since somebody else wrote some.
--
-- ARGV  [1] what all keys begin with, [2] the same of the index, threads
for at = 3, #ARGV do
  local thread = ARGV[at]
  if not is_counted(thread) then
    redis.call('DEL', INDEX .. 'counts:' .. thread)
    local flat = redis.call('ZRANGE', order_of(thread), 0, -1, 'WITHSCORES')
    for place = 1, #flat, 2 do
      local id = flat[place]
      local text = redis.call('GET', message_key(thread, id))
      if text then
        local resource = member_of(text, 'resourceId') or '""'
        redis.call('ZADD', INDEX .. 'messages:' .. resource,
          string.format('%d', math.floor(tonumber(flat[place + 1]) / 1000)), id)
        redis.call('SET', THREAD_OF .. id, thread)
        count(thread, resource, 1)
      else
        redis.call('ZREM', order_of(thread), id)
      end
    end
    redis.call('SADD', INDEX .. 'places', thread)
  end
end
return 1
