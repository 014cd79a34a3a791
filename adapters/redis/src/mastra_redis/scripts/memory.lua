--! include json
--! include times
-- Threads and messages, and our indexes beside them:
--   threads                    hash: thread -> created, updated (ms), resource as JSON text
--   threads:created[:resource], threads:updated[:resource]
--   counts:<thread>            hash: resource -> number of the thread's messages
--   messages:<resource>        ids of the resource's messages by creation
--   places                     set of all threads with messages
local BASE, INDEX = ARGV[1], ARGV[2]
local THREADS, MESSAGES, THREAD_OF =
  BASE .. 'mastra_threads:id:', BASE .. 'mastra_messages:threadId:', BASE .. 'msg-idx:'

local function message_key(thread, id)
  return MESSAGES .. thread .. ':id:' .. id
end

local function order_of(thread)
  return BASE .. 'thread:' .. thread .. ':messages'
end

local function places_of(row)
  return {
    {INDEX .. 'threads:created', row[1]},
    {INDEX .. 'threads:updated', row[2]},
    {INDEX .. 'threads:created:' .. row[3], row[1]},
    {INDEX .. 'threads:updated:' .. row[3], row[2]},
  }
end

local function known_thread(id)
  local text = redis.call('HGET', INDEX .. 'threads', id)
  if not text then
    return nil
  end
  local created, updated, resource = string.match(text, '^(.-)\n(.-)\n(.*)$')
  return {created, updated, resource}
end

local function forget_thread(id)
  local row = known_thread(id)
  if row then
    for _, place in ipairs(places_of(row)) do
      redis.call('ZREM', place[1], id)
    end
    redis.call('HDEL', INDEX .. 'threads', id)
  end
end

-- Put a thread where its record says that it belongs.
local function index_thread(id, created, updated, resource)
  local new = {
    string.format('%d', ms_of(created) or 0), string.format('%d', ms_of(updated) or 0), resource}
  local old = known_thread(id)
  if old and old[1] == new[1] and old[2] == new[2] and old[3] == new[3] then
    return
  end
  local before = old and places_of(old)
  for at, place in ipairs(places_of(new)) do
    if before and before[at][1] ~= place[1] then
      redis.call('ZREM', before[at][1], id)
    end
    if not before or before[at][1] ~= place[1] or before[at][2] ~= place[2] then
      redis.call('ZADD', place[1], place[2], id)
    end
  end
  redis.call('HSET', INDEX .. 'threads', id, table.concat(new, '\n'))
end

-- Give an existing thread a new time of change.
local function touch(id, now, from)
  local text = redis.call('GET', THREADS .. id)
  if not text then
    return
  end
  local stored, start, stop = member_of(text, 'updatedAt')
  if not stored then
    return
  end
  local updated = next_time(now, unquoted(stored))
  text = string.sub(text, 1, start) .. updated .. string.sub(text, stop)
  index_thread(id, unquoted(member_of(text, 'createdAt')), updated,
    member_of(text, 'resourceId') or '""')
  redis.call('SET', from ~= '' and from or THREADS .. id, text)
end

local function count(thread, resource, by)
  if redis.call('HINCRBY', INDEX .. 'counts:' .. thread, resource, by) <= 0 then
    redis.call('HDEL', INDEX .. 'counts:' .. thread, resource)
  end
end

-- Take a message out of everything.
local function drop_message(thread, id)
  local key = message_key(thread, id)
  local text = redis.call('GET', key)
  local resource = text and member_of(text, 'resourceId') or '""'
  redis.call('DEL', key)
  redis.call('DEL', THREAD_OF .. id)
  if redis.call('ZREM', order_of(thread), id) == 1 then
    count(thread, resource, -1)
  end
  redis.call('ZREM', INDEX .. 'messages:' .. resource, id)
end

-- Whether what we know of a thread's messages is all that is there.
local function is_counted(thread)
  local sum = 0
  for at, value in ipairs(redis.call('HGETALL', INDEX .. 'counts:' .. thread)) do
    if at % 2 == 0 then
      sum = sum + tonumber(value)
    end
  end
  return sum == redis.call('ZCARD', order_of(thread))
end
