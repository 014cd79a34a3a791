-- Forget a topic: its entries, groups, and what they hold; dead letters stay.
--
-- KEYS  stream
-- ARGV  what keys beside the stream begin with, channel of hints, topic
-- Answer: the last id that was given out, the time
local stream, beside = KEYS[1], ARGV[1]
local last = '0-0'
if redis.call('EXISTS', stream) == 1 then
  local facts = redis.call('XINFO', 'STREAM', stream)
  for at = 1, #facts, 2 do
    if facts[at] == 'last-generated-id' then
      last = facts[at + 1]
    end
  end
  for _, group in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
    for at = 1, #group, 2 do
      if group[at] == 'name' then
        local name = group[at + 1]
        redis.call('DEL', beside .. ':rq:' .. name, beside .. ':at:' .. name,
          beside .. ':er:' .. name, beside .. ':ak:' .. name)
      end
    end
  end
  redis.call('DEL', stream)
end
redis.call('PUBLISH', ARGV[2], ARGV[3])
return {last, redis.call('TIME')}
