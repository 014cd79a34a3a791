--! include bus
-- Make a group unless it is there, and count a consumer in.
--
-- KEYS  stream
-- ARGV  what keys beside the stream begin with, group, consumer, where a new group begins,
--       ms that a consumer may be silent, idle ms of the stream (0: for ever)
local made = redis.pcall('XGROUP', 'CREATE', STREAM, GROUP, ARGV[4], 'MKSTREAM')
if made.err and not string.find(made.err, 'BUSYGROUP', 1, true) then
  return made
end
redis.call('XGROUP', 'CREATECONSUMER', STREAM, GROUP, ARGV[3])
redis.call('SET', BESIDE .. ':hb:' .. ARGV[3], '1', 'PX', ARGV[5])
if tonumber(ARGV[6]) > 0 then
  redis.call('PEXPIRE', STREAM, ARGV[6])
end
-- Consumers of ours that died and hold nothing.
for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', STREAM, GROUP)) do
  local facts = {}
  for at = 1, #consumer, 2 do
    facts[consumer[at]] = consumer[at + 1]
  end
  local name = facts['name']
  if facts['pending'] == 0 and facts['idle'] > 60000 and string.find(name, '-py1-', 1, true)
      and redis.call('EXISTS', BESIDE .. ':hb:' .. name) == 0 then
    redis.call('XGROUP', 'DELCONSUMER', STREAM, GROUP, name)
  end
end
return 1
