-- A lease is a key with its owner, as the TypeScript system has it. Beside it stands a hash:
--   seq     the newest fence
--   owner   whose it is, empty once it was released
--   holder  which incarnation of the owner, empty if nobody said
--   till    when it ends, in ms of the server
-- An owner here that differs from the key's says that a TypeScript peer has taken the key since.
local LEASE, FENCE = KEYS[1], KEYS[2]
local OPERATION, CHANNEL, NAME, KEPT = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local time = redis.call('TIME')
local now_us = tonumber(time[1]) * 1000000 + tonumber(time[2])
local now = math.floor(now_us / 1000)

local function whole(number)
  return string.format('%.0f', number)
end

local owner = redis.call('GET', LEASE)
local found = redis.call('HMGET', FENCE, 'seq', 'owner', 'holder', 'till')
local seq, known, holder, till = tonumber(found[1] or 0), found[2] or '', found[3] or '', found[4]

local function tell(event, whose, fence)
  redis.call('PUBLISH', CHANNEL, '{"key":' .. NAME .. ',"event":"' .. event .. '","owner":'
    .. cjson.encode(whose) .. ',"fence":' .. whole(fence) .. '}')
end

local function remember(new_owner, new_holder, new_till)
  redis.call('HSET', FENCE, 'seq', whole(seq), 'owner', new_owner, 'holder', new_holder,
    'till', whole(new_till))
  redis.call('PEXPIRE', FENCE, KEPT)
end

-- Above every fence that was ever issued, also if the hash was lost (L4).
local function next_fence()
  seq = math.max(seq + 1, now_us)
  return seq
end

-- Whether the caller's term is the one that holds.
local function is_own(whose, incarnation, fence)
  if owner ~= whose then
    return false
  end
  if incarnation == '' and fence == '' then
    return true
  end
  if known ~= owner then
    return false
  end
  if incarnation ~= '' and holder ~= '' and holder ~= incarnation then
    return false
  end
  return fence == '' or fence == whole(seq)
end

local function refused()
  local fence = known == owner and whole(seq) or ''
  return {0, owner or '', fence, owner and redis.call('PTTL', LEASE) or 0}
end
