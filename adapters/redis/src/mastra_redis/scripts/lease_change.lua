--! include leases
-- Renew, release, hand on or check a lease that is the caller's (pubsub_and_lease.md 9.3).
--
-- KEYS  lease, fence
-- ARGV  operation, channel of events, name of the key as JSON text, ms that fences are kept,
--       owner, holder, fence, ttl, next owner, next holder
-- Answer: {1, owner, fence, ttl, end} or {0, owner, fence, remaining ms}
local whose, incarnation, fence, ttl = ARGV[5], ARGV[6], ARGV[7], tonumber(ARGV[8])
if not is_own(whose, incarnation, fence) then
  return refused()
end
local heir, heir_holder = ARGV[9], ARGV[10]
if OPERATION == 'transfer' then
  if heir ~= whose or (heir_holder ~= '' and heir_holder ~= holder) then
    next_fence()
    remember(heir, heir_holder, now + ttl)
    redis.call('SET', LEASE, heir, 'PX', ttl)
    tell('transferred', heir, seq)
    return {1, heir, whole(seq), ttl, whole(now + ttl)}
  end
  OPERATION = 'renew'
end
if OPERATION == 'renew' then
  redis.call('PEXPIRE', LEASE, ttl)
  if known == owner then
    remember(owner, holder ~= '' and holder or incarnation, now + ttl)
  end
  return {1, owner, known == owner and whole(seq) or '', ttl, whole(now + ttl)}
end
if OPERATION == 'release' then
  redis.call('DEL', LEASE)
  local ended = seq
  remember('', '', 0)
  tell('released', owner, ended)
end
return {1, owner, whole(seq), 0, ''}
