--! include memory
--! include fences
-- Write threads and messages, all or none.
--
-- ARGV  [1] what all keys begin with, [2] the same of the index, [3] now,
--       number of threads, per thread: id, record without its times and end, created, updated,
--         resource, wanted ('*' any, '' none, SHA-1), '' or the key from which the caller moves
--         the record in place
--       number of messages, per message: thread, id, record up to its creation, creation, rest of
--         the record, creation in ms, resource, wanted ('*' any, SHA-1), thread from before
--       number of touched threads, per thread: id, '' or a key as above
--       the fence, if KEYS[1] says where the newest is kept
-- Answer: {1, creation of each thread, of each message} or
--         {0, 'thread' or 'message', number, what is there} or {0, 'fence', a newer one}
local newest = newer_fence()
if newest then
  return {0, 'fence', newest}
end
local now = ARGV[3]
local at = 4
local threads, messages = {}, {}

for number = 1, tonumber(ARGV[at]) do
  local first = at + 1 + (number - 1) * 7
  local thread = {
    id = ARGV[first], body = ARGV[first + 1], created = ARGV[first + 2],
    updated = ARGV[first + 3], resource = ARGV[first + 4], wanted = ARGV[first + 5],
    from = ARGV[first + 6],
  }
  local stored = redis.call('GET', THREADS .. thread.id)
  if thread.wanted ~= '*' and (stored and redis.sha1hex(stored) or '') ~= thread.wanted then
    return {0, 'thread', number, stored}
  end
  if stored then
    thread.created = unquoted(member_of(stored, 'createdAt')) or thread.created
  end
  threads[number] = thread
end
at = at + 1 + #threads * 7

for number = 1, tonumber(ARGV[at]) do
  local first = at + 1 + (number - 1) * 9
  local message = {
    thread = ARGV[first], id = ARGV[first + 1], head = ARGV[first + 2],
    created = ARGV[first + 3], rest = ARGV[first + 4], ms = ARGV[first + 5],
    resource = ARGV[first + 6], wanted = ARGV[first + 7], before = ARGV[first + 8],
  }
  local thread = redis.call('GET', THREAD_OF .. message.id)
  local stored = thread and redis.call('GET', message_key(thread, message.id))
  if message.wanted == '*' then
    if stored and thread ~= message.thread then
      return {0, 'message', number, thread}
    end
    if not stored and redis.call('EXISTS', message_key(message.thread, message.id)) == 1 then
      local text = redis.call('GET', message_key(message.thread, message.id))
      local id, own = member_of(text, 'id'), member_of(text, 'threadId')
      if id and own and (cjson.decode('[' .. id .. ',' .. own .. ']')[1] ~= message.id
          or cjson.decode('[' .. id .. ',' .. own .. ']')[2] ~= message.thread) then
        return {0, 'message', number, 'another'}
      end
      thread, stored = message.thread, text
    end
  elseif (stored and redis.sha1hex(stored) or '') ~= message.wanted then
    return {0, 'message', number, stored}
  end
  if stored then
    message.old_thread = thread
    message.old_resource = member_of(stored, 'resourceId') or '""'
    local score = redis.call('ZSCORE', order_of(thread), message.id)
    if score then
      message.score = score
      local ms = math.floor(tonumber(score) / 1000)
      if string.format('%d', ms) ~= message.ms and message.wanted == '*' then
        message.created = iso_of(ms)
        message.ms = string.format('%d', ms)
      end
    end
  end
  messages[number] = message
end
at = at + 1 + #messages * 9

keep_fence()
local answer = {1}
for _, thread in ipairs(threads) do
  index_thread(thread.id, thread.created, thread.updated, thread.resource)
  redis.call('SET', thread.from ~= '' and thread.from or THREADS .. thread.id,
    thread.body .. '"createdAt":"' .. thread.created .. '","updatedAt":"' .. thread.updated .. '"}')
  answer[#answer + 1] = thread.created
end
for _, message in ipairs(messages) do
  local old_thread = message.old_thread
  if old_thread and old_thread ~= message.thread then
    redis.call('DEL', message_key(old_thread, message.id))
    redis.call('ZREM', order_of(old_thread), message.id)
    count(old_thread, message.old_resource, -1)
    message.score = nil
  elseif message.score and message.old_resource ~= message.resource then
    count(message.thread, message.old_resource, -1)
    count(message.thread, message.resource, 1)
  end
  if message.old_resource and message.old_resource ~= message.resource then
    redis.call('ZREM', INDEX .. 'messages:' .. message.old_resource, message.id)
  end
  redis.call('SET', message_key(message.thread, message.id),
    message.head .. message.created .. message.rest)
  if old_thread ~= message.thread then
    redis.call('SET', THREAD_OF .. message.id, message.thread)
  end
  if not message.score then
    redis.call('ZADD', order_of(message.thread), message.ms .. '000', message.id)
    count(message.thread, message.resource, 1)
    redis.call('SADD', INDEX .. 'places', message.thread)
  end
  redis.call('ZADD', INDEX .. 'messages:' .. message.resource, message.ms, message.id)
  answer[#answer + 1] = message.created
end
for number = 1, tonumber(ARGV[at]) do
  touch(ARGV[at + number * 2 - 1], now, ARGV[at + number * 2])
end
return answer
