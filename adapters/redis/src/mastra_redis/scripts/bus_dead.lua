-- Dead letters of a topic.
--
-- KEYS  stream
-- ARGV  what keys beside the stream begin with, '' or a group, '1' to delete them
-- Answer: how many, then per group: its name and its letters
local beside = ARGV[1]
local groups = ARGV[2] ~= '' and {ARGV[2]} or redis.call('SMEMBERS', beside .. ':dlqs')
local answer = {0}
for _, group in ipairs(groups) do
  local key = beside .. ':dlq:' .. group
  answer[1] = answer[1] + redis.call('XLEN', key)
  if ARGV[3] == '1' then
    redis.call('DEL', key)
  else
    answer[#answer + 1] = group
    answer[#answer + 1] = redis.call('XRANGE', key, '-', '+')
  end
end
if ARGV[3] == '1' and ARGV[2] == '' then
  redis.call('DEL', beside .. ':dlqs')
end
return answer
