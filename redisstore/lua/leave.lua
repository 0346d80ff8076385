-- Gives up whatever the owner has, its place in the queue and the lock if it has been granted, and may bar the owner.
--   KEYS  lock, queue, bars, heard
--   ARGV  owner, channel, grant ms, bar ms (0 = none)
-- Returns 1 if the lock was the owner's, else 0.
if ARGV[4] ~= '0' then
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', string.format('%.0f', now))
  -- The longest bar counts: a server that stood still runs several at one moment.
  local bar = redis.call('ZSCORE', KEYS[3], ARGV[1])
  if not bar or tonumber(bar) < now + ARGV[4] then
    redis.call('ZADD', KEYS[3], string.format('%.0f', now + ARGV[4]), ARGV[1])
  end
  if redis.call('PTTL', KEYS[3]) < tonumber(ARGV[4]) then
    redis.call('PEXPIRE', KEYS[3], ARGV[4])
  end
end
local place = ARGV[2] .. ' ' .. ARGV[1] .. ' ' .. ARGV[3]
if redis.call('ZREM', KEYS[2], place) == 1 then
  redis.call('HDEL', KEYS[4], place)
end
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
if not pass(KEYS[1], KEYS[2], KEYS[4]) then
  redis.call('DEL', KEYS[1])
end
return 1
