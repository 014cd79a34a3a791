--! include memory
--! include fences
-- Delete threads with their messages, and messages.
--
-- ARGV  [1] what all keys begin with, [2] the same of the index, [3] now, number of threads,
--       threads, ids of messages, the fence, if KEYS[1] says where the newest is kept
-- Answer: how many threads and messages went, or {a newer fence}
local newest = newer_fence()
if newest then
  return {newest}
end
keep_fence()
local now, threads = ARGV[3], tonumber(ARGV[4])
local gone = 0
for at = 5, 4 + threads do
  local thread = ARGV[at]
  for _, id in ipairs(redis.call('ZRANGE', order_of(thread), 0, -1)) do
    drop_message(thread, id)
  end
  redis.call('DEL', order_of(thread), INDEX .. 'counts:' .. thread)
  redis.call('SREM', INDEX .. 'places', thread)
  gone = gone + redis.call('DEL', THREADS .. thread)
  forget_thread(thread)
end
local touched = {}
for at = 5 + threads, #ARGV - #KEYS do
  local thread = redis.call('GET', THREAD_OF .. ARGV[at])
  if thread then
    drop_message(thread, ARGV[at])
    gone = gone + 1
    touched[thread] = true
  end
end
for thread in pairs(touched) do
  touch(thread, now, '')
end
return gone
