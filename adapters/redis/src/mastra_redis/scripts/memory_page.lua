--! include memory
--! include merge
-- One page of the messages of threads.
--
-- ARGV  [1] what all keys begin with, [2] the same of the index, [3] lowest and [4] highest
--       score, [5] offset, [6] number of messages (-1: all), [7] '1' for newest first,
--       [8] '' or the resource to which all must belong, threads
-- Answer: total, whether all of them belong to the resource (2: nobody knows), thread and id and
--         record of each
local low, high, offset, limit = ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
local newest, resource = ARGV[7] == '1', ARGV[8]
local alike = 1
if resource ~= '' then
  for at = 9, #ARGV do
    local thread = ARGV[at]
    if not is_counted(thread) then
      return {0, 2}
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
local total, sets = 0, {}
for at = 9, #ARGV do
  local key = order_of(ARGV[at])
  total = total + redis.call('ZCOUNT', key, low, high)
  local part = limit < 0 and {} or {'LIMIT', 0, offset + limit}
  if limit ~= 0 then
    if newest then
      sets[#sets + 1] = redis.call(
        'ZREVRANGEBYSCORE', key, high, low, 'WITHSCORES', unpack(part))
    else
      sets[#sets + 1] = redis.call('ZRANGEBYSCORE', key, low, high, 'WITHSCORES', unpack(part))
    end
  end
end
local found = merged(sets, newest)
local last = limit < 0 and #found or math.min(#found, offset + limit)
local keys, answer = {}, {total, alike}
for at = offset + 1, last do
  keys[#keys + 1] = message_key(ARGV[8 + found[at][3]], found[at][2])
end
local texts = values_of(keys)
for at = offset + 1, last do
  answer[#answer + 1] = ARGV[8 + found[at][3]]
  answer[#answer + 1] = found[at][2]
  answer[#answer + 1] = texts[at - offset]
end
return answer
