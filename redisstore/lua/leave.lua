-- Gives up whatever the owner has: its place in the queue, and the lock if it has been granted.
--   KEYS  lock, queue
--   ARGV  owner, channel, grant ms
-- Returns 1 if the lock was the owner's, else 0.
redis.call('ZREM', KEYS[2], ARGV[2] .. ' ' .. ARGV[1] .. ' ' .. ARGV[3])
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
if not pass(KEYS[1], KEYS[2]) then
  redis.call('DEL', KEYS[1])
end
return 1
