-- Takes a lock if it is free or the owner's already. If not, gives the owner a place in the queue, if it wants one.
--   KEYS  lock, queue, counter, bars, heard
--   ARGV  owner, lease ms, previous owner or '', channel ('' = no place), grant ms, tokens, prefix of our owners
-- Returns {1, last token} or {0, ms left, foreign, ticket}.
local owner = ARGV[1]
local place = ARGV[4] ~= '' and (ARGV[4] .. ' ' .. owner .. ' ' .. ARGV[5])
local bars = redis.call('EXISTS', KEYS[4]) == 1
local holder = redis.call('GET', KEYS[1])
local ran_out = not holder
if bars and barred(KEYS[4], owner) then
  -- A late copy of a request that was given up: nobody hears the answer.
  return {0, 0, 0, '0'}
end
if holder and (holder == ARGV[3] or bars and barred(KEYS[4], holder)) then
  holder = pass(KEYS[1], KEYS[2], KEYS[5])
end
if not holder or holder == owner then
  redis.call('SET', KEYS[1], owner, 'PX', ARGV[2])
  if place and ran_out then
    redis.call('ZREM', KEYS[2], place) -- in all other cases it was taken from the queue, or never there
    redis.call('HDEL', KEYS[5], place)
  end
  if ARGV[6] ~= '0' then
    return {1, mint(KEYS[3], ARGV[6])}
  end
  return {1, '0'}
end
local ticket = '0'
if place then
  local time = redis.call('TIME')
  local now = string.format('%.0f', time[1] * 1000000 + time[2])
  ticket = redis.call('ZSCORE', KEYS[2], place)
  if not ticket then
    ticket = now
    redis.call('ZADD', KEYS[2], ticket, place)
  end
  redis.call('HSET', KEYS[5], place, now)
  -- Live waiters ask again long before this; a queue of dead ones goes away.
  redis.call('PEXPIRE', KEYS[2], 10000)
  redis.call('PEXPIRE', KEYS[5], 10000)
end
local foreign = string.sub(holder, 1, #ARGV[7]) == ARGV[7] and 0 or 1
local left = redis.call('PTTL', KEYS[1])
return {0, left == 0 and 1 or left, foreign, ticket} -- 0 would say that it is not known
