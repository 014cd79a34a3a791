--! include runs
-- Which of these records the index doesn't know as they are.
--
-- ARGV  [1] what keys of records begin with, [2] the same of the index, then ends of keys
-- Answer: per stranger the end of its key and its record (false if it is gone)
local strangers = {}
for at = 3, #ARGV do
  local place = ARGV[at]
  local name = place
  if string.find(place, ':resourceId:', 1, true) then
    name = redis.call('HGET', LONG, place) or place
  end
  -- This may be done for every key of a database, so only what decides is read.
  local text = redis.call('HGET', ROWS, name)
  local same = false
  if text then
    local length, created, updated, where =
      string.match(text, '^(%d+)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n')
    if (where == '') == (name == place) and redis.call('STRLEN', SNAPSHOTS .. place) == tonumber(length) then
      local tail = tail_of(created, updated)
      same = redis.call('GETRANGE', SNAPSHOTS .. place, -#tail, -1) == tail
        and place_of(name, where) == place
    end
  end
  if not same then
    strangers[#strangers + 1] = place
    strangers[#strangers + 1] = redis.call('GET', SNAPSHOTS .. place)
  end
end
return strangers
