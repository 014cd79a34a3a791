-- Looks into JSON text without reading it as Lua values, which would lose large numbers and
-- turn empty arrays into objects.

-- Where the string that starts at `at` (its quote) ends.
local function string_end(text, at)
  local place = at + 1
  while true do
    local found = string.find(text, '["\\]', place)
    if not found then
      return nil
    end
    if string.byte(text, found) == 34 then
      return found
    end
    place = found + 2
  end
end

-- Where the value that starts at `at` ends.
local function value_end(text, at)
  local first = string.byte(text, at)
  if first == 34 then
    return string_end(text, at)
  end
  if first ~= 123 and first ~= 91 then
    local stop = string.find(text, '[,}%]%s]', at)
    return stop and stop - 1 or nil
  end
  local depth, place = 0, at
  while true do
    local found = string.find(text, '["{}%[%]]', place)
    if not found then
      return nil
    end
    local byte = string.byte(text, found)
    if byte == 34 then
      found = string_end(text, found)
      if not found then
        return nil
      end
    elseif byte == 123 or byte == 91 then
      depth = depth + 1
    else
      depth = depth - 1
      if depth == 0 then
        return found
      end
    end
    place = found + 1
  end
end

-- The text of one member of an object, and where it starts and ends; nil without it.
local function member_of(text, name)
  local place = string.find(text, '{', 1, true)
  if not place then
    return nil
  end
  while true do
    local key = string.find(text, '["}]', place + 1)
    if not key or string.byte(text, key) == 125 then
      return nil
    end
    local key_end = string_end(text, key)
    if not key_end then
      return nil
    end
    local colon = string.find(text, ':', key_end + 1, true)
    if not colon then
      return nil
    end
    local start = string.find(text, '%S', colon + 1)
    local stop = start and value_end(text, start)
    if not stop then
      return nil
    end
    if string.sub(text, key + 1, key_end - 1) == name then
      return string.sub(text, start, stop), start, stop
    end
    place = stop
  end
end

-- A text without its quotes; for times, which hold no escapes.
local function unquoted(token)
  return token and string.match(token, '^"(.*)"$') or nil
end
