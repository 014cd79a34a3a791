-- Change several keys in one step, if they still hold what the caller has seen.
--
-- KEYS  the keys that were looked at
-- ARGV  for each key what it must hold: '' nothing, '*' anything, '#n' a set of n members,
--       else the SHA-1 of its text;
--       then commands: number of words, words ...
-- Answer: {1}, or {0, what the keys hold now ...}
local held = {0}
local same = true
for place, key in ipairs(KEYS) do
  local value = false
  local wanted = ARGV[place]
  if string.sub(wanted, 1, 1) == '#' then
    same = same and redis.call('SCARD', key) == tonumber(string.sub(wanted, 2))
  elseif wanted ~= '*' then
    value = redis.call('GET', key)
    if wanted == '' then
      same = same and not value
    else
      same = same and value and redis.sha1hex(value) == wanted
    end
  end
  held[place + 1] = value
end
if not same then
  return held
end
local at = #KEYS + 1
while at <= #ARGV do
  local words = tonumber(ARGV[at])
  redis.call(unpack(ARGV, at + 1, at + words))
  at = at + words + 1
end
return {1}
