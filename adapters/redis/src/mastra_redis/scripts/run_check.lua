--! include runs
-- Which of these records the index doesn't know as they are.
--
-- ARGV  [1] what keys of records begin with, [2] the same of the index, then ends of keys
-- Answer: per stranger the end of its key and its record (false if it is gone)
local strangers = {}
for at = 3, #ARGV do
  local place = ARGV[at]
  local name = redis.call('HGET', LONG, place) or place
  local row = known(name)
  if not row or place_of(name, row[4]) ~= place or not is_fresh(name, row) then
    strangers[#strangers + 1] = place
    strangers[#strangers + 1] = redis.call('GET', SNAPSHOTS .. place)
  end
end
return strangers
