--! include memory
--! include merge
-- One page of the messages of threads.
--
-- ARGV  [1] what all keys begin with, [2] the same of the index, [3] lowest and [4] highest
--       score, [5] offset, [6] number of messages (-1: all), [7] '1' for newest first,
--       [8] '' or the resource to which all must belong, threads
-- Answer: total, whether all of them belong to the resource (2: nobody knows), threads that miss
--         a record, the records
local low, high, offset, limit = ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
local newest, resource = ARGV[7] == '1', ARGV[8]
local alike = 1
if resource ~= '' then
  for at = 9, #ARGV do
    local thread = ARGV[at]
    if not is_counted(thread) then
      return {0, 2, {}, {}}
    end
    for place, name in ipairs(redis.call('HKEYS', INDEX .. 'counts:' .. thread)) do
      if name ~= resource then
        alike = 0
      end
    end
  end
  if alike == 0 then
    limit, offset = -1, 0
  end
end
local total, sets, ids, owners = 0, {}, {}, {}
local command = newest and 'ZREVRANGEBYSCORE' or 'ZRANGEBYSCORE'
local first, last = newest and high or low, newest and low or high
if #ARGV == 9 then
  -- One thread: the server finds the page.
  local key = order_of(ARGV[9])
  total = redis.call('ZCOUNT', key, low, high)
  if limit ~= 0 then
    ids = redis.call(command, key, first, last, 'LIMIT', offset, limit)
  end
else
  for at = 9, #ARGV do
    local key = order_of(ARGV[at])
    total = total + redis.call('ZCOUNT', key, low, high)
    if limit ~= 0 then
      local part = limit < 0 and {} or {'LIMIT', 0, offset + limit}
      sets[#sets + 1] = redis.call(command, key, first, last, 'WITHSCORES', unpack(part))
    end
  end
  local found = merged(sets, newest)
  local stop = limit < 0 and #found or math.min(#found, offset + limit)
  for at = offset + 1, stop do
    ids[#ids + 1] = found[at][2]
    owners[#ids] = ARGV[8 + found[at][3]]
  end
end
local keys, gone, texts = {}, {}, {}
for at, id in ipairs(ids) do
  keys[at] = message_key(owners[at] or ARGV[9], id)
end
for at, text in ipairs(values_of(keys)) do
  if text then
    texts[#texts + 1] = text
  else
    gone[#gone + 1] = owners[at] or ARGV[9]
  end
end
return {total, alike, gone, texts}
