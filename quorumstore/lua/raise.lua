-- Writes the last token that was reserved to one master, if the lock is the owner's there and the number is news to it.
--   KEYS  lock, counter
--   ARGV  owner, last token
-- Returns {1} if it was written, {0} if the lock is not the owner's, or {2, counter} if the counter is as far already.
if not owned(redis.call('GET', KEYS[1]), ARGV[1]) then
  return {0}
end
local last = redis.call('GET', KEYS[2])
if last and not less(last, ARGV[2]) then
  return {2, last}
end
-- Kept until the clock has been ahead of it for an hour.
local ahead = math.max(0, tonumber(ARGV[2]) - tonumber(clock())) / 1000
redis.call('SET', KEYS[2], ARGV[2], 'PX', string.format('%.0f', math.min(ahead, 3e12) + 3600000))
return {1}
