-- Takes one master's vote back, and the place in its queue with it.
--   KEYS  lock, queue, bars
--   ARGV  owner, value of the last attempt to take back ('' = all), 1 to hint, place ('' = none), bar ms (0 = none)
-- Returns 1 if the lock was the owner's, else 0.
local owner, value, place = ARGV[1], ARGV[2], ARGV[4]
if ARGV[5] ~= '0' then
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', string.format('%.0f', now))
  local whom = value == '' and owner or value
  -- The longest bar counts: a server that stood still runs several at one moment.
  local bar = redis.call('ZSCORE', KEYS[3], whom)
  if not bar or tonumber(bar) < now + ARGV[5] then
    redis.call('ZADD', KEYS[3], string.format('%.0f', now + ARGV[5]), whom)
  end
  if redis.call('PTTL', KEYS[3]) < tonumber(ARGV[5]) then
    redis.call('PEXPIRE', KEYS[3], ARGV[5])
  end
end
local gone = place ~= '' and redis.call('ZREM', KEYS[2], place) == 0
local holder = redis.call('GET', KEYS[1])
if owned(holder, owner) and (value == '' or holder <= value) then
  redis.call('DEL', KEYS[1])
  if ARGV[3] == '1' then
    hint(KEYS[2])
  end
  return 1
end
if gone and not holder then
  hint(KEYS[2]) -- the hint that took the owner from the queue goes to the next
end
return 0
