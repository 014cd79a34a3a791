-- Entries after a position, and whether some before them are gone.
--
-- KEYS  stream
-- ARGV  position, number of entries
-- Answer: the entries, '' or the first one that is there, how many were ever added (0: unknown),
--         length
local stream, position = KEYS[1], ARGV[1]
local entries = redis.call('XRANGE', stream, '(' .. position, '+', 'COUNT', ARGV[2])
if position == '0-0' or #redis.call('XRANGE', stream, position, position) > 0 then
  return {entries, '', 0, 0}
end
local first = redis.call('XRANGE', stream, '-', '+', 'COUNT', 1)
if #first == 0 or #entries == 0 or first[1][1] ~= entries[1][1] then
  return {entries, '', 0, 0}
end
local added = 0
local facts = redis.call('XINFO', 'STREAM', stream)
for at = 1, #facts, 2 do
  if facts[at] == 'entries-added' then
    added = facts[at + 1]
  end
end
return {entries, first[1][1], added, redis.call('XLEN', stream)}
