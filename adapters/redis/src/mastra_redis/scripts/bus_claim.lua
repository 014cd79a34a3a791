--! include bus
-- Take events of a group for a consumer: what came back first, then what is new.
--
-- KEYS  stream
-- ARGV  what keys beside the stream begin with, group, consumer, number of events,
--       ms after which others get what somebody holds, '1' for one at a time,
--       '1' to look for what came back, where a lost group begins anew, ms that a consumer
--       may be silent
-- Answer: ms until the next one comes back (-1: none held), how many were lost by trimming,
--         then per event: '1' if it was queued again, entry, deliveries, last error, fields
local consumer, limit, wait = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local ordered, looks, anew, silent = ARGV[6] == '1', ARGV[7] == '1', ARGV[8], tonumber(ARGV[9])
local answer = {-1, 0}
local taken, held, lost = 0, 0, 0
local next_due = nil

local function sooner(left)
  if left >= 0 and (not next_due or left < next_due) then
    next_due = left
  end
end

local function again(stream, message)
  local found = string.find(message, 'NOGROUP', 1, true)
  if found then
    redis.pcall('XGROUP', 'CREATE', stream, GROUP, stream == STREAM and anew or '0', 'MKSTREAM')
  end
  return found
end

local alive = {}
local function is_alive(name)
  if alive[name] == nil then
    alive[name] = redis.call('EXISTS', BESIDE .. ':hb:' .. name) == 1
  end
  return alive[name]
end

-- Ms until somebody else may have it; 0 and less is now.
local function left_of(id, name, idle)
  local later = redis.call('HGET', LATER, id)
  if later then
    return tonumber(later) - now
  end
  local left = wait - idle
  if string.find(name, '-py1-', 1, true) and not is_alive(name) then
    left = math.min(left, name == RELEASED and 0 or silent - idle)
  end
  return left
end

local function hand_out(stream, entry, deliveries)
  taken = taken + 1
  answer[#answer + 1] = stream == QUEUED and '1' or ''
  answer[#answer + 1] = entry[1]
  answer[#answer + 1] = deliveries
  answer[#answer + 1] = redis.call('HGET', ERRORS, entry[1]) or ''
  answer[#answer + 1] = entry[2]
end

local function take_back(stream)
  local start = '-'
  while true do
    local page = redis.pcall('XPENDING', stream, GROUP, start, '+', 500)
    if page.err then
      again(stream, page.err)
      return
    end
    for _, pending in ipairs(page) do
      local id, name, idle, count = pending[1], pending[2], pending[3], pending[4]
      local left = left_of(id, name, idle)
      if left > 0 or taken >= limit or (ordered and taken > 0) then
        held = held + 1
        sooner(math.max(left, 0))
      else
        local entry = redis.call('XCLAIM', stream, GROUP, consumer, 0, id)[1]
        redis.call('HDEL', LATER, id)
        if entry and entry[2] then
          hand_out(stream, entry, count + 1)
          sooner(wait)
        else
          settled(stream, id)
          lost = lost + 1
        end
      end
    end
    if #page < 500 then
      return
    end
    start = '(' .. page[#page][1]
  end
end

local function take_new(stream, wanted)
  local reply = redis.pcall(
    'XREADGROUP', 'GROUP', GROUP, consumer, 'COUNT', wanted, 'STREAMS', stream, '>')
  if reply and reply.err then
    if not again(stream, reply.err) then
      return reply
    end
    reply = redis.call(
      'XREADGROUP', 'GROUP', GROUP, consumer, 'COUNT', wanted, 'STREAMS', stream, '>')
  end
  if reply then
    for _, entry in ipairs(reply[1][2]) do
      hand_out(stream, entry, 1)
      sooner(wait)
    end
  end
  return nil
end

local streams = redis.call('EXISTS', QUEUED) == 1 and {QUEUED, STREAM} or {STREAM}
if looks or ordered then
  for _, stream in ipairs(streams) do
    take_back(stream)
  end
end
for _, stream in ipairs(streams) do
  local wanted = ordered and (taken + held == 0 and 1 or 0) or limit - taken
  if wanted > 0 then
    local failed = take_new(stream, wanted)
    if failed then
      return failed
    end
  end
end
answer[1] = next_due or -1
answer[2] = lost
return answer
