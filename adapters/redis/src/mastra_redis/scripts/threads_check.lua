--! include memory
-- Index threads as their records say, and count messages that somebody else wrote.
--
-- ARGV  [1] what all keys begin with, [2] the same of the index, threads
-- Answer: threads whose messages must be counted anew
local uncounted = {}
for at = 3, #ARGV do
  local id = ARGV[at]
  local text = redis.call('GET', THREADS .. id)
  local created = text and unquoted(member_of(text, 'createdAt'))
  local updated = text and unquoted(member_of(text, 'updatedAt'))
  if created and updated then
    index_thread(id, created, updated, member_of(text, 'resourceId') or '""')
  else
    forget_thread(id)
  end
  if not is_counted(id) then
    uncounted[#uncounted + 1] = id
  end
end
return uncounted
