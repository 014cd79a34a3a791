--! include json
--! include times
-- What is known of a run, beside its record. One line of a hash per run:
--   length of the record, created, updated, '' or the resource in whose key it lies,
--   resource, claim, places ...
-- where texts are JSON strings, so that no line break is in them. If length and times of the
-- record are others, somebody else has written it.
local SNAPSHOTS, INDEX = ARGV[1], ARGV[2]
local ROWS, SUSPENDED, CLAIMED, LONG, CORRUPT =
  INDEX .. 'rows', INDEX .. 'suspended', INDEX .. 'claimed', INDEX .. 'long', INDEX .. 'corrupt'

local function lines(text)
  local found = {}
  for line in string.gmatch(text .. '\n', '(.-)\n') do
    found[#found + 1] = line
  end
  return found
end

local function decoded(token)
  return cjson.decode('[' .. token .. ']')[1]
end

-- The end of the key that holds a run, without what all of them begin with.
local function place_of(name, where)
  if where == '' then
    return name
  end
  return name .. ':resourceId:' .. decoded(where)
end

local function tail_of(created, updated)
  return '"createdAt":"' .. created .. '","updatedAt":"' .. updated .. '"}'
end

-- Whether the index speaks of the record as it is now.
local function is_fresh(name, row)
  local key = SNAPSHOTS .. place_of(name, row[4])
  if redis.call('STRLEN', key) ~= tonumber(row[1]) then
    return false
  end
  local tail = tail_of(row[2], row[3])
  return redis.call('GETRANGE', key, -#tail, -1) == tail
end

local function known(name)
  local text = redis.call('HGET', ROWS, name)
  return text and lines(text) or nil
end

-- Times, resource and claim of a record, whoever wrote it; nil if it is another run's.
local function looked_into(value, name_token, run_token)
  local found_name, found_run = member_of(value, 'workflow_name'), member_of(value, 'run_id')
  if found_name ~= name_token or found_run ~= run_token then
    return nil
  end
  local claim = ''
  local snapshot = member_of(value, 'snapshot')
  if snapshot and string.byte(snapshot, 1) == 123 then
    local held = member_of(snapshot, 'resumeClaim')
    claim = held and string.byte(held, 1) == 123 and member_of(held, 'claimId') or ''
  end
  local resource = member_of(value, 'resourceId') or ''
  if resource == 'null' or resource == '""' then
    resource = ''
  end
  return {
    created = unquoted(member_of(value, 'createdAt')),
    updated = unquoted(member_of(value, 'updatedAt')),
    resource = resource,
    claim = claim,
  }
end

-- Take a run out of every order it stands in.
local function unplace(member, row)
  for at = 7, #row do
    redis.call('ZREM', INDEX .. row[at], member)
  end
end

local function forget(name, member, row)
  unplace(member, row)
  redis.call('HDEL', ROWS, name)
  redis.call('HDEL', SUSPENDED, name)
  redis.call('ZREM', CLAIMED, member)
  redis.call('ZREM', INDEX .. 'ids', member)
  if row[4] ~= '' then
    redis.call('HDEL', LONG, place_of(name, row[4]))
  end
end

-- Where a run stands.
local function places_of(run)
  local places = {'all', 'name:' .. run.name}
  if run.status ~= '' then
    places[#places + 1] = 'status:' .. run.status
    places[#places + 1] = 'name:' .. run.name .. ':status:' .. run.status
  end
  if run.resource ~= '' then
    places[#places + 1] = 'resource:' .. run.resource
  end
  if run.thread ~= '' then
    places[#places + 1] = 'thread:' .. run.thread
  end
  if run.projection ~= '' and run.agent ~= '' then
    local own = 'agent:' .. run.name .. run.agent
    places[#places + 1] = own
    if run.thread ~= '' then
      places[#places + 1] = own .. ':thread:' .. run.thread
    end
    local resource = run.resource ~= '' and run.resource or run.inner
    if resource ~= '' then
      places[#places + 1] = own .. ':resource:' .. resource
    end
  end
  return places
end

-- Write down what the index knows of a run; old is what it knew.
local function place(run, old)
  local places = places_of(run)
  local same = old and old[2] == run.created and #old == #places + 6
  if same then
    for at, name in ipairs(places) do
      same = same and old[at + 6] == name
    end
  end
  if not same then
    if old then
      unplace(run.member, old)
    end
    local score = ms_of(run.created) or 0
    for _, name in ipairs(places) do
      redis.call('ZADD', INDEX .. name, score, run.member)
    end
    redis.call('ZADD', INDEX .. 'ids', 0, run.member)
  end
  if run.projection ~= '' then
    redis.call('HSET', SUSPENDED, run.key, run.projection)
  elseif not old or redis.call('HEXISTS', SUSPENDED, run.key) == 1 then
    redis.call('HDEL', SUSPENDED, run.key)
  end
  if run.expires ~= '' then
    redis.call('ZADD', CLAIMED, run.expires, run.member)
  elseif not old or old[6] ~= '' then
    redis.call('ZREM', CLAIMED, run.member)
  end
  if old and old[4] ~= '' and old[4] ~= run.where then
    redis.call('HDEL', LONG, place_of(run.key, old[4]))
  end
  if run.where ~= '' then
    redis.call('HSET', LONG, place_of(run.key, run.where), run.key)
  end
  redis.call('HSET', ROWS, run.key, table.concat({
    run.length, run.created, run.updated, run.where, run.resource, run.claim,
    table.concat(places, '\n')}, '\n'))
end
