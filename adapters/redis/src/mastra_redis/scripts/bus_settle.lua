--! include bus
-- Settle what a consumer holds; what it no longer holds is left alone.
--
-- KEYS  stream
-- ARGV  what keys beside the stream begin with, group, consumer, ms after which others get what
--       somebody holds, channel of hints, topic, ms that dead letters are kept, then per event:
--       'ack' 'nack' 'back' or 'dead', '1' if it was queued again, entry, deliveries, ms, error,
--       id of the event, attempts
-- Answer: per dead letter: place of the event among the arguments, its id, its event, ms
local consumer, wait = ARGV[3], tonumber(ARGV[4])
local answer = {}
local tells = false
local acknowledged = {}

for at = 8, #ARGV, 8 do
  local verdict, queued, id = ARGV[at], ARGV[at + 1] == '1', ARGV[at + 2]
  local stream = queued and QUEUED or STREAM
  local name, count = holder_of(stream, id)
  if name == consumer and count == tonumber(ARGV[at + 3]) then
    local ms, error = tonumber(ARGV[at + 4]), ARGV[at + 5]
    if verdict == 'ack' then
      settled(stream, id)
      acknowledged[#acknowledged + 1] = now
      acknowledged[#acknowledged + 1] = ARGV[at + 6]
    elseif verdict == 'nack' then
      redis.call('XCLAIM', stream, GROUP, consumer, 0, id,
        'IDLE', math.max(0, wait - ms), 'RETRYCOUNT', count, 'JUSTID')
      -- Also tells whoever clears up behind the consumer that this attempt was made.
      redis.call('HSET', LATER, id, now + ms)
      redis.call('PEXPIRE', LATER, DAY + ms)
      if error ~= '' then
        redis.call('HSET', ERRORS, id, error)
        redis.call('PEXPIRE', ERRORS, DAY)
      end
      tells = true
    elseif verdict == 'back' then
      redis.call('XCLAIM', stream, GROUP, RELEASED, 0, id,
        'IDLE', wait, 'RETRYCOUNT', math.max(0, count - 1), 'JUSTID')
      tells = true
    else
      local entry = redis.call('XRANGE', stream, id, id)[1]
      if error == '' then
        error = redis.call('HGET', ERRORS, id) or ''
      end
      settled(stream, id)
      if entry then
        local event = ''
        for place = 1, #entry[2], 2 do
          if entry[2][place] == 'event' then
            event = entry[2][place + 1]
          end
        end
        local letters = BESIDE .. ':dlq:' .. GROUP
        local letter = redis.call('XADD', letters, '*', 'event', event, 'attempts', ARGV[at + 7],
          'error', error, 'at', now)
        redis.call('XTRIM', letters, 'MINID', '~', math.max(0, now - tonumber(ARGV[7])))
        redis.call('PEXPIRE', letters, ARGV[7])
        redis.call('SADD', BESIDE .. ':dlqs', GROUP)
        redis.call('PEXPIRE', BESIDE .. ':dlqs', ARGV[7])
        answer[#answer + 1] = at
        answer[#answer + 1] = letter
        answer[#answer + 1] = event
        answer[#answer + 1] = now
      end
      tells = true
    end
  end
end
if #acknowledged > 0 then
  local key = BESIDE .. ':ak:' .. GROUP
  redis.call('ZADD', key, unpack(acknowledged))
  redis.call('ZREMRANGEBYSCORE', key, '-inf', now - 600000)
  redis.call('ZREMRANGEBYRANK', key, 0, -10001)
  redis.call('PEXPIRE', key, 600000)
end
if tells then
  redis.call('PUBLISH', ARGV[5], ARGV[6])
end
return answer
