--! include bus
-- Forget a consumer; what it holds goes to whoever asks first.
--
-- KEYS  stream
-- ARGV  what keys beside the stream begin with, group, consumer, ms after which others get what
--       somebody holds, channel of hints, topic
local consumer, wait = ARGV[3], tonumber(ARGV[4])
redis.call('DEL', BESIDE .. ':hb:' .. consumer)
for _, stream in ipairs({STREAM, QUEUED}) do
  local page = redis.pcall('XPENDING', stream, GROUP, '-', '+', 100000, consumer)
  if not page.err then
    for _, pending in ipairs(page) do
      local id, idle, count = pending[1], wait, math.max(0, pending[4] - 1)
      if redis.call('HEXISTS', LATER, id) == 1 then
        -- It failed here and waits for its next attempt.
        idle, count = pending[3], pending[4]
      end
      redis.call('XCLAIM', stream, GROUP, RELEASED, 0, id,
        'IDLE', idle, 'RETRYCOUNT', count, 'JUSTID')
    end
    redis.call('XGROUP', 'DELCONSUMER', stream, GROUP, consumer)
  end
end
redis.call('PUBLISH', ARGV[5], ARGV[6])
return 1
