-- Put events into a topic's stream, in this order.
--
-- KEYS  stream
-- ARGV  what keys beside the stream begin with, number of entries to keep, idle ms (0: for ever),
--       ms that dedupe ids are kept, then per event: its JSON text, dedupe id ('' none),
--       key of the lease ('' none), key of its fence, fence
-- Answer: length of the stream, then per event: '' if it is stored, else the newer fence
local stream, beside, keep, idle = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local answer = {0}
local added = 0

-- Whether somebody newer owns the lease (pubsub_and_lease.md L9).
local function newer_fence(lease, fence, token)
  local found = redis.call('HMGET', fence, 'seq', 'owner')
  local seq = tonumber(found[1] or 0)
  local owner = redis.call('GET', lease)
  if token < seq or (owner and token <= seq and owner ~= (found[2] or '')) then
    return string.format('%.0f', math.max(seq, token + 1))
  end
  if token > seq then
    redis.call('HSET', fence, 'seq', string.format('%.0f', token))
    redis.call('PEXPIRE', fence, 604800000)
  end
  return ''
end

for at = 5, #ARGV, 5 do
  local refused = ''
  if ARGV[at + 2] ~= '' then
    refused = newer_fence(ARGV[at + 2], ARGV[at + 3], tonumber(ARGV[at + 4]))
  end
  if refused == '' and (ARGV[at + 1] == ''
      or redis.call('SET', beside .. ':dd:' .. ARGV[at + 1], '1', 'NX', 'PX', ARGV[4])) then
    redis.call('XADD', stream, '*', 'event', ARGV[at])
    added = added + 1
  end
  answer[#answer + 1] = refused
end
if added == 0 then
  return answer
end
if idle > 0 then
  redis.call('PEXPIRE', stream, idle)
end

-- Older entries go, but none that a group of consumers hasn't settled (R-7). Private groups
-- of TypeScript subscribers don't count. A long stream that can't be cut is looked at rarely.
local length = redis.call('XLEN', stream)
answer[1] = length
local slack = math.max(1, math.floor(keep / 10))
if length > keep + slack and (length <= keep + slack + added or length % slack < added) then
  local floor = nil
  for _, group in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
    local facts = {}
    for at = 1, #group, 2 do
      facts[group[at]] = group[at + 1]
    end
    if string.sub(facts['name'], 1, 9) ~= '__fanout-' then
      local lowest = facts['last-delivered-id']
      if facts['pending'] > 0 then
        lowest = redis.call('XPENDING', stream, facts['name'])[2]
      end
      local ms, number = string.match(lowest, '^(%d+)-(%d+)$')
      ms, number = tonumber(ms), tonumber(number)
      if not floor or ms < floor[1] or (ms == floor[1] and number < floor[2]) then
        floor = {ms, number, lowest}
      end
    end
  end
  if not floor then
    redis.call('XTRIM', stream, 'MAXLEN', keep < 1000 and '=' or '~', keep)
  else
    -- The first entry that would be kept anyway, if it is before the floor.
    local excess = redis.call('XRANGE', stream, '-', '+', 'COUNT', math.min(length - keep, 2000) + 1)
    local last = excess[#excess][1]
    local ms, number = string.match(last, '^(%d+)-(%d+)$')
    ms, number = tonumber(ms), tonumber(number)
    if ms > floor[1] or (ms == floor[1] and number > floor[2]) then
      last = floor[3]
    end
    redis.call('XTRIM', stream, 'MINID', keep < 1000 and '=' or '~', last)
  end
end
return answer
