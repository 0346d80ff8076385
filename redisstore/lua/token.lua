-- Mints fencing tokens if the lock is the owner's.
--   KEYS  lock, counter
--   ARGV  owner, tokens
-- Returns {1, last token} or {0}.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return {0}
end
return {1, mint(KEYS[2], ARGV[2])}
