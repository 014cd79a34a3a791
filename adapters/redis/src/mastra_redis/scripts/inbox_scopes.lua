-- The pending records that an event may go into.
--
-- KEYS  sets of ids, one per key of the event
-- ARGV  what keys of the thread's records begin with, the same of sidecars, and the key of the
--       event's own record or ''
-- Answer: ids of each set, records and sidecars of all ids in the order of their first coming,
--         the event's own record
local ids, records, sidecars, seen = {}, {}, {}, {}
for place, key in ipairs(KEYS) do
  ids[place] = redis.call('SMEMBERS', key)
  for _, id in ipairs(ids[place]) do
    if not seen[id] then
      seen[id] = true
      records[#records + 1] = id
      records[#records + 1] = redis.call('GET', ARGV[1] .. id)
      sidecars[#sidecars + 1] = redis.call('GET', ARGV[2] .. id)
    end
  end
end
return {ids, records, sidecars, ARGV[3] ~= '' and redis.call('GET', ARGV[3]) or false}
