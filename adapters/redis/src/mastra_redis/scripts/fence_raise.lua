--! include fences
-- Refuse guarded writes with an older fence from now on.
--
-- KEYS  where the newest fence is kept
-- ARGV  the fence
-- Answer: nil, or a newer one that is known
local newest = newer_fence()
if newest then
  return newest
end
keep_fence()
return false
