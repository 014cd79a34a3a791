--! include runs
--! include merge
-- One page of suspended runs, newest created first.
--
-- ARGV  [1] what keys of records begin with, [2] the same of the index, [3] lowest and
--       [4] highest creation, [5] offset, [6] number of runs (-1: all), [7] creation and
--       [8] beginning of the member that the page comes after ('' none),
--       then sorted sets without what they begin with
-- Answer: total, then per run: member, the first lines of what is known of it, projection ('' if
--         it is stale)
local low, high, offset, count = ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
local after, behind = ARGV[7], ARGV[8]
local total = 0
local sets = {}
for at = 9, #ARGV do
  local key = INDEX .. ARGV[at]
  total = total + redis.call('ZCOUNT', key, low, high)
  local flat = {}
  if after == '' then
    local limit = count < 0 and {} or {'LIMIT', 0, offset + count}
    flat = redis.call('ZREVRANGEBYSCORE', key, high, low, 'WITHSCORES', unpack(limit))
  else
    local ties = redis.call('ZREVRANGEBYSCORE', key, after, after, 'WITHSCORES')
    for place = 1, #ties, 2 do
      if before(ties[place], behind) then
        flat[#flat + 1] = ties[place]
        flat[#flat + 1] = ties[place + 1]
      end
    end
    local limit = count < 0 and {} or {'LIMIT', 0, offset + count}
    local rest = redis.call(
      'ZREVRANGEBYSCORE', key, '(' .. after, low, 'WITHSCORES', unpack(limit))
    for _, value in ipairs(rest) do
      flat[#flat + 1] = value
    end
  end
  sets[#sets + 1] = flat
end
local found = merged(sets, true)
local last = count < 0 and #found or math.min(#found, offset + count)
local answer = {total}
for at = offset + 1, last do
  local member = found[at][2]
  local run, name = string.match(member, '^(.-)%z\1(.-)%z\1$')
  local key = string.gsub(name, '%z\255', '\0') .. ':run_id:' .. string.gsub(run, '%z\255', '\0')
  local text = redis.call('HGET', ROWS, key)
  local row = text and lines(text)
  answer[#answer + 1] = member
  -- What follows are the orders in which it stands: nobody else's affair.
  answer[#answer + 1] = row and table.concat(row, '\n', 1, 5) or ''
  local fresh = row and is_fresh(key, row)
  answer[#answer + 1] = fresh and redis.call('HGET', SUSPENDED, key) or ''
end
return answer
