-- Times as both sides write them: 2026-01-31T08:00:00.000Z, which sort as text.

local function ms_of(iso)
  local y, m, d, h, n, s, ms = string.match(
    iso or '', '^(%d%d%d%d)-(%d%d)-(%d%d)T(%d%d):(%d%d):(%d%d)%.(%d%d%d)Z$')
  if not y then
    return nil
  end
  y, m, d = tonumber(y), tonumber(m), tonumber(d)
  if m <= 2 then
    y = y - 1
  end
  local era = math.floor(y / 400)
  local year = y - era * 400
  local day = math.floor((153 * (m + (m > 2 and -3 or 9)) + 2) / 5) + d - 1
  local days = era * 146097 + year * 365 + math.floor(year / 4) - math.floor(year / 100)
    + day - 719468
  return ((days * 24 + tonumber(h)) * 60 + tonumber(n)) * 60000 + tonumber(s) * 1000
    + tonumber(ms)
end

local function iso_of(ms)
  local days = math.floor(ms / 86400000)
  local rest = ms - days * 86400000
  days = days + 719468
  local era = math.floor(days / 146097)
  local doe = days - era * 146097
  local yoe = math.floor((doe - math.floor(doe / 1460) + math.floor(doe / 36524)
    - math.floor(doe / 146096)) / 365)
  local doy = doe - (365 * yoe + math.floor(yoe / 4) - math.floor(yoe / 100))
  local mp = math.floor((5 * doy + 2) / 153)
  local d = doy - math.floor((153 * mp + 2) / 5) + 1
  local m = mp < 10 and mp + 3 or mp - 9
  local y = yoe + era * 400 + (m <= 2 and 1 or 0)
  local seconds = math.floor(rest / 1000)
  return string.format('%04d-%02d-%02dT%02d:%02d:%02d.%03dZ', y, m, d,
    math.floor(seconds / 3600), math.floor(seconds / 60) % 60, seconds % 60, rest % 1000)
end

-- The later of now and one millisecond after what is stored.
local function next_time(now, stored)
  if not stored or now > stored then
    return now
  end
  local ms = ms_of(stored)
  return ms and iso_of(ms + 1) or now
end
