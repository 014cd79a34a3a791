-- The newest fence of a lease key, as guarded writes carry it (pubsub_and_lease.md 6.4, L9).
--
-- KEYS[1] is where it is kept, if the write has one; it is the last of ARGV then.
local FENCE, TOKEN = KEYS[1], ARGV[#ARGV]

-- A newer one that is known; nil if there is none, or the write has no fence.
local function newer_fence()
  local newest = FENCE and redis.call('GET', FENCE)
  if newest and tonumber(newest) > tonumber(TOKEN) then
    return newest
  end
  return nil
end

-- It outlives the term by a week (L4).
local function keep_fence()
  if FENCE then
    redis.call('SET', FENCE, TOKEN, 'PX', 604800000)
  end
end
