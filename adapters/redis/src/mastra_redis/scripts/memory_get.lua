--! include memory
-- Messages by id, each with its neighbours in its thread.
--
-- ARGV  [1] what all keys begin with, [2] the same of the index, then per message: id, number of
--       messages before it and after it
-- Answer: the records
local answer, seen = {}, {}
for at = 3, #ARGV, 3 do
  local id, before, after = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local thread = redis.call('GET', THREAD_OF .. id)
  local ids = {id}
  if thread and before + after > 0 then
    local rank = redis.call('ZRANK', order_of(thread), id)
    if rank then
      ids = redis.call('ZRANGE', order_of(thread), math.max(0, rank - before), rank + after)
    end
  end
  if thread then
    for _, found in ipairs(ids) do
      local key = message_key(thread, found)
      if not seen[key] then
        seen[key] = true
        local text = redis.call('GET', key)
        if text then
          answer[#answer + 1] = text
        end
      end
    end
  end
end
return answer
