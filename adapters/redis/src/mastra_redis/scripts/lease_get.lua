-- A lease as the server sees it.
--
-- KEYS  lease, fence
-- Answer: owner, holder, fence, remaining ms; nothing if it is free
local owner = redis.call('GET', KEYS[1])
if not owner then
  return false
end
local found = redis.call('HMGET', KEYS[2], 'seq', 'owner', 'holder')
local holder = found[2] == owner and found[3] or ''
return {owner, holder, found[1] or '0', redis.call('PTTL', KEYS[1])}
