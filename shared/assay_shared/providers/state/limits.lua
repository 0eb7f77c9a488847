-- One provider's limits, decided where all replicas meet and by one clock. See limits.py for the
-- rules and limits_redis.py for the calls.
--
-- A ticket is "tokens:replica:number:caller", one waiting or admitted request.
--   leases   ticket -> when it ends unless renewed (ms)      admitted
--   queue    ticket -> round                                 waiting
--   alive    ticket -> when it is forgotten unless renewed   waiting
--   callers  "last:<caller>" -> round, "waiting:<caller>" -> number of requests
--   state    level of each bucket and when it was so, end of the pause, present round
local LEASES, QUEUE, ALIVE, CALLERS, STATE = unpack(KEYS)
local operation, limits, asked = ARGV[1], cjson.decode(ARGV[2]), cjson.decode(ARGV[3])
local TICK_MS = 0.01
local FORGOTTEN_MS = 3600000

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local stored = redis.call('HMGET', STATE, 'paused', 'round')
local paused, round = tonumber(stored[1] or 0), tonumber(stored[2] or 0)

local levels = {}
for name, bucket in pairs(limits.buckets) do
  local was = redis.call('HMGET', STATE, name, name .. '_at')
  local level, at = tonumber(was[1] or bucket.capacity), tonumber(was[2] or now)
  levels[name] = math.min(level + math.max(now - at, 0) * bucket.per_ms, bucket.capacity)
end

local function wait_for(name, amount)
  local bucket = limits.buckets[name]
  if not bucket then return 0 end
  local wait = (math.min(amount, bucket.capacity) - levels[name]) / bucket.per_ms
  return wait > TICK_MS and wait or 0
end

local function take(name, amount)
  local bucket = limits.buckets[name]
  if bucket then levels[name] = math.min(levels[name] - amount, bucket.capacity) end
end

-- What even a request of no tokens has to wait.
local function request_wait()
  return math.max(paused - now, wait_for('requests', 1), 0)
end

local function parts(ticket)
  local tokens, replica, caller = string.match(ticket, '^(%d+):([^:]*):%d+:(.*)$')
  return tonumber(tokens), replica, caller
end

local function tell(ticket, what)
  if ticket ~= asked.ticket then
    local _, replica = parts(ticket)
    redis.call('PUBLISH', limits.channel .. replica, what .. ticket)
  end
end

local function unqueue(ticket)
  redis.call('ZREM', ALIVE, ticket)
  if redis.call('ZREM', QUEUE, ticket) == 0 then return end
  local _, _, caller = parts(ticket)
  if redis.call('HINCRBY', CALLERS, 'waiting:' .. caller, -1) <= 0 then
    redis.call('HDEL', CALLERS, 'waiting:' .. caller, 'last:' .. caller)
  end
end

local function has_place()
  return not limits.concurrency or redis.call('ZCARD', LEASES) < limits.concurrency
end

-- Lets in who is next while there is room. Returns how long time takes to make some (ms), or
-- nothing where only a request that ends does.
local function admit()
  while has_place() do
    local head = redis.call('ZRANGE', QUEUE, 0, 0, 'WITHSCORES')
    local ticket = head[1]
    if not ticket then return nil end
    local tokens = parts(ticket)
    local wait = math.max(request_wait(), wait_for('tokens', tokens))
    if wait > 0 then return wait end
    unqueue(ticket)
    round = tonumber(head[2])
    take('requests', 1)
    take('tokens', tokens)
    redis.call('ZADD', LEASES, now + limits.lease_ms, ticket)
    tell(ticket, '+')
  end
  local first = redis.call('ZRANGE', LEASES, 0, 0, 'WITHSCORES')
  return first[2] and math.max(first[2] - now, 0)
end

-- Whether there is a place in the queue for a request of this round.
local function make_room(own_round)
  if redis.call('ZCARD', QUEUE) < limits.max_waiting then return true end
  local last = redis.call('ZREVRANGE', QUEUE, 0, 0, 'WITHSCORES')
  if not last[1] or tonumber(last[2]) <= own_round then return false end
  unqueue(last[1])
  tell(last[1], '-')
  return true
end

local function join(ticket)
  local _, _, caller = parts(ticket)
  local last = tonumber(redis.call('HGET', CALLERS, 'last:' .. caller) or 0)
  local own_round = math.max(round, last) + 1
  if not make_room(own_round) then return false end
  redis.call('ZADD', QUEUE, own_round, ticket)
  redis.call('ZADD', ALIVE, now + limits.lease_ms, ticket)
  redis.call('HINCRBY', CALLERS, 'waiting:' .. caller, 1)
  redis.call('HSET', CALLERS, 'last:' .. caller, own_round)
  return true
end

local function standing(ticket)
  if redis.call('ZSCORE', LEASES, ticket) then return 'admitted' end
  if redis.call('ZSCORE', QUEUE, ticket) then return 'waiting' end
  return 'gone'
end

local operations = {}

function operations.enter()
  local known = standing(asked.ticket) ~= 'gone'
  if not known and request_wait() > asked.deadline_ms then return {'late', math.ceil(request_wait())} end
  if not known and not join(asked.ticket) then return {'full', 0} end
  local wait = admit() or limits.lease_ms
  return {standing(asked.ticket), math.ceil(wait)}
end

-- A lease that was lost with the server's memory comes back: its request is still in the air.
function operations.renew()
  for _, ticket in ipairs(asked.left) do
    redis.call('ZREM', LEASES, ticket)
    unqueue(ticket)
  end
  for _, ticket in ipairs(asked.held) do
    redis.call('ZADD', LEASES, now + limits.lease_ms, ticket)
  end
  for _, ticket in ipairs(asked.waiting) do
    redis.call('ZADD', ALIVE, 'XX', now + limits.lease_ms, ticket)
  end
  local answer = {math.ceil(admit() or limits.lease_ms)}
  for _, ticket in ipairs(asked.waiting) do table.insert(answer, standing(ticket)) end
  return answer
end

function operations.leave()
  if redis.call('ZREM', LEASES, asked.ticket) == 1 then
    take('tokens', -asked.tokens_back)
    take('requests', -asked.requests_back)
  end
  unqueue(asked.ticket)
  admit()
  return {}
end

function operations.pause()
  paused = math.max(paused, now + asked.pause_ms)
  return {}
end

redis.call('ZREMRANGEBYSCORE', LEASES, '-inf', now)
for _, ticket in ipairs(redis.call('ZRANGEBYSCORE', ALIVE, '-inf', now)) do unqueue(ticket) end
local answer = operations[operation]()
redis.call('HSET', STATE, 'paused', paused, 'round', round)
for name, level in pairs(levels) do redis.call('HSET', STATE, name, level, name .. '_at', now) end
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, FORGOTTEN_MS) end
return answer
