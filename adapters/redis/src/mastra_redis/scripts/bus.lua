-- State of a group beside a stream; keys begin with BESIDE:
--   :rq:<group>   stream of events that were given up and queued again, with the same group
--   :dlq:<group>  stream of events that were given up
--   :dlqs         set of groups that gave up
--   :at:<group>   hash: entry -> ms of the server before which nobody gets it
--   :er:<group>   hash: entry -> why it was refused last
--   :ak:<group>   ids of settled events, by time; a TypeScript retry of one is no news
--   :hb:<consumer> a consumer that is alive
local STREAM, BESIDE, GROUP = KEYS[1], ARGV[1], ARGV[2]
local QUEUED = BESIDE .. ':rq:' .. GROUP
local LATER, ERRORS = BESIDE .. ':at:' .. GROUP, BESIDE .. ':er:' .. GROUP
local DAY, WEEK = 86400000, 604800000
local RELEASED = GROUP .. '-py1-released'

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

-- Who holds an entry, and how often it was delivered.
local function holder_of(stream, id)
  local found = redis.pcall('XPENDING', stream, GROUP, id, id, 1)
  if found.err or #found == 0 then
    return nil
  end
  return found[1][2], tonumber(found[1][4])
end

local function settled(stream, id)
  redis.call('XACK', stream, GROUP, id)
  redis.call('HDEL', LATER, id)
  redis.call('HDEL', ERRORS, id)
  if stream == QUEUED then
    redis.call('XDEL', stream, id)
    if redis.call('XLEN', stream) == 0 then
      redis.call('DEL', stream)
    end
  end
end
