-- Bytes in order, whatever the locale of the server is.
local function before(left, right)
  local shorter = math.min(#left, #right)
  for at = 1, shorter do
    local a, b = string.byte(left, at), string.byte(right, at)
    if a ~= b then
      return a < b
    end
  end
  return #left < #right
end

-- Members of several sorted sets as one list of {score, member, set}, lowest first or, if
-- `reversed`, highest first.
local function merged(sets, reversed)
  local found = {}
  for place, flat in ipairs(sets) do
    for at = 1, #flat, 2 do
      found[#found + 1] = {tonumber(flat[at + 1]), flat[at], place}
    end
  end
  if #sets > 1 then
    table.sort(found, function(left, right)
      if left[1] ~= right[1] then
        return (left[1] < right[1]) ~= reversed
      end
      if left[2] == right[2] then
        return false
      end
      return before(left[2], right[2]) ~= reversed
    end)
  end
  return found
end

-- The values of many keys; MGET takes only so many at once.
local function values_of(keys)
  local values = {}
  for first = 1, #keys, 4000 do
    local part = redis.call('MGET', unpack(keys, first, math.min(first + 3999, #keys)))
    for place, value in ipairs(part) do
      values[first + place - 1] = value
    end
  end
  return values
end
