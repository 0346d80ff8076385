-- Asks one master for the number that the next token must exceed, if the lock is the owner's there.
--   KEYS  lock, counter
--   ARGV  owner
-- Returns {1, floor} or {0}.
if not owned(redis.call('GET', KEYS[1]), ARGV[1]) then
  return {0}
end
return {1, floor(KEYS[2])}
