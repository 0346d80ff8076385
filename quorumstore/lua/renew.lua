-- Gives one master's vote a new lease if it is the owner's.
--   KEYS  lock
--   ARGV  owner, lease ms
-- Returns 1 if the lock is the owner's, else 0.
if not owned(redis.call('GET', KEYS[1]), ARGV[1]) then
  return 0
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
