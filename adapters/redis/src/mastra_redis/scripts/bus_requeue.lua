--! include bus
-- Give a dead letter to its group again, and to nobody else.
--
-- KEYS  stream
-- ARGV  what keys beside the stream begin with, group, id of the letter, channel of hints, topic
-- Answer: 1 if it was there
local letters = BESIDE .. ':dlq:' .. GROUP
local entry = redis.call('XRANGE', letters, ARGV[3], ARGV[3])[1]
if not entry then
  return 0
end
redis.call('XDEL', letters, ARGV[3])
if redis.call('XLEN', letters) == 0 then
  redis.call('DEL', letters)
end
local event = ''
for at = 1, #entry[2], 2 do
  if entry[2][at] == 'event' then
    event = entry[2][at + 1]
  end
end
redis.call('XADD', QUEUED, '*', 'event', event)
redis.pcall('XGROUP', 'CREATE', QUEUED, GROUP, '0')
redis.call('PEXPIRE', QUEUED, WEEK)
redis.call('PUBLISH', ARGV[4], ARGV[5])
return 1
