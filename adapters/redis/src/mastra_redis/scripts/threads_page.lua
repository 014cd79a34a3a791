--! include memory
--! include merge
-- One page of threads.
--
-- ARGV  [1] what all keys begin with, [2] the same of the index, [3] the order, [4] offset,
--       [5] number of threads (-1: all), [6] '1' for highest first
-- Answer: total, then id and record of each
local key = INDEX .. ARGV[3]
local first, number = tonumber(ARGV[4]), tonumber(ARGV[5])
local ids = {}
if number ~= 0 then
  local last = number < 0 and -1 or first + number - 1
  ids = redis.call(ARGV[6] == '1' and 'ZREVRANGE' or 'ZRANGE', key, first, last)
end
local keys, answer = {}, {redis.call('ZCARD', key)}
for at, id in ipairs(ids) do
  keys[at] = THREADS .. id
end
local texts = values_of(keys)
for at, id in ipairs(ids) do
  if not texts[at] then
    forget_thread(id)
  end
  answer[#answer + 1] = id
  answer[#answer + 1] = texts[at]
end
return answer
