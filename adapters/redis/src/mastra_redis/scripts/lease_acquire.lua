--! include leases
-- Take a lease that is free, expired or the caller's (pubsub_and_lease.md 9.3).
--
-- KEYS  lease, fence
-- ARGV  'acquire', channel of events, name of the key as JSON text, ms that fences are kept,
--       owner, holder, ttl, lock delay
-- Answer: {1, owner, fence, ttl, end} or {0, owner, fence, remaining ms}
local whose, incarnation, ttl, delay = ARGV[5], ARGV[6], ARGV[7], tonumber(ARGV[8])
if owner and owner ~= whose then
  return refused()
end
if owner and known == owner
    and (incarnation == '' or holder == '' or holder == incarnation) then
  redis.call('PEXPIRE', LEASE, ttl)
  remember(owner, holder ~= '' and holder or incarnation, now + ttl)
  return {1, owner, whole(seq), ttl, whole(now + ttl)}
end
if not owner and known ~= '' then
  local left = (tonumber(till) or 0) + delay - now
  if delay > 0 and known ~= whose and left > 0 then
    -- It expired instead of being released: its holder may not know yet (L13).
    return {0, '', '', left}
  end
  tell('expired', known, seq)
end
next_fence()
remember(whose, incarnation, now + ttl)
redis.call('SET', LEASE, whose, 'PX', ttl)
tell('acquired', whose, seq)
return {1, whose, whole(seq), ttl, whole(now + ttl)}
