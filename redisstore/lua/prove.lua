-- Tells whether a lock's owner is the one whose proof this is, and for how long.
--   KEYS  lock
--   ARGV  proof: the SHA-1 of the owner, in hex. The owner is 128 random bits, so nobody finds it, or another one, by it
-- Returns {1, ms left} or {0}.
local holder = redis.call('GET', KEYS[1])
if not holder or redis.sha1hex(holder) ~= ARGV[1] then
  return {0}
end
return {1, redis.call('PTTL', KEYS[1])}
