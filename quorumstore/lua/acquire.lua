-- Asks one master for its vote: takes the lock if it is free or the owner's already, and else gives the owner a place in
-- this master's queue, if it wants one.
--   KEYS  lock, queue, bars, counter
--   ARGV  owner, value, lease ms, previous owner or '', place ('' = none), prefix of our owners, head start ms,
--         1 to be told the floor of tokens
-- Returns {1, floor} or {0, ms left, foreign, holder, 1 if the lock was passed on}.
local owner, value, place = ARGV[1], ARGV[2], ARGV[5]
local holder = redis.call('GET', KEYS[1])
if redis.call('EXISTS', KEYS[3]) == 1 then
  if barred(KEYS[3], value) then
    -- A late copy of a request that was given up: nobody hears the answer.
    return {0, 0, 0, '', 0}
  end
  if holder and barred(KEYS[3], holder) then
    redis.call('DEL', KEYS[1])
    holder = false
  end
end
local passed = false
if ARGV[4] ~= '' and owned(holder, ARGV[4]) then
  redis.call('DEL', KEYS[1])
  holder = false
  passed = hint(KEYS[2])
end
if not passed and (not holder or owned(holder, owner)) then
  if holder and holder > value then
    value = holder -- of a later attempt, which this one must not undo
  end
  redis.call('SET', KEYS[1], value, 'PX', ARGV[3])
  if place ~= '' then
    redis.call('ZREM', KEYS[2], place)
  end
  return {1, ARGV[8] == '1' and floor(KEYS[4]) or '0'}
end
if place ~= '' then
  redis.call('ZADD', KEYS[2], 'NX', clock(), place)
  -- Live waiters ask again long before this; a queue of dead ones goes away.
  redis.call('PEXPIRE', KEYS[2], 10000)
end
if passed then
  return {0, ARGV[7], 0, '', 1}
end
local foreign = string.sub(holder, 1, #ARGV[6]) == ARGV[6] and 0 or 1
return {0, redis.call('PTTL', KEYS[1]), foreign, holder, 0}
