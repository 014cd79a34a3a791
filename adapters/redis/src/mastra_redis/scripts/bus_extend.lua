--! include bus
-- Start the time of what a consumer still holds anew.
--
-- KEYS  stream
-- ARGV  what keys beside the stream begin with, group, consumer, then per event: '1' if it was
--       queued again, entry, deliveries
local consumer = ARGV[3]
for at = 4, #ARGV, 3 do
  local stream = ARGV[at] == '1' and QUEUED or STREAM
  local name, count = holder_of(stream, ARGV[at + 1])
  if name == consumer and count == tonumber(ARGV[at + 2]) then
    redis.call('XCLAIM', stream, GROUP, consumer, 0, ARGV[at + 1], 'JUSTID')
  end
end
return 1
