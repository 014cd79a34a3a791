-- Write one value of a thread: creation and change time, then its JSON text.
--
-- KEYS  the hash of the thread
-- ARGV  type, now, JSON text, wanted ('*' anything, '' nothing, else the SHA-1 of the text)
-- Answer: {1}, or {0, what is there}
local stored = redis.call('HGET', KEYS[1], ARGV[1])
if ARGV[4] ~= '*' and (stored and redis.sha1hex(stored) or '') ~= ARGV[4] then
  return {0, stored}
end
local created = stored and string.sub(stored, 1, 24) or ARGV[2]
redis.call('HSET', KEYS[1], ARGV[1], created .. ARGV[2] .. ARGV[3])
return {1}
