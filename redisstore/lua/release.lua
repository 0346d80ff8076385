-- Lets a lock go if it is the owner's: to the first in the queue, if there is one.
--   KEYS  lock, queue, heard
--   ARGV  owner
-- Returns 1 if the lock was the owner's, else 0.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
if not pass(KEYS[1], KEYS[2], KEYS[3]) then
  redis.call('DEL', KEYS[1])
end
return 1
