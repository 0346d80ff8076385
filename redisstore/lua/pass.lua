-- pass gives a lock to the first in its queue and tells it so. It returns the new owner, or false, and changes
-- nothing, if nobody queues. A place in the queue is "channel owner milliseconds"; its score is its ticket. A server that does
-- not let us publish has passed the lock on all the same: its new owner finds out when it asks again.
local function pass(lock, queue)
  local first = redis.call('ZPOPMIN', queue)
  if not first[1] then
    return false
  end
  local channel, owner, ms = string.match(first[1], '^(%S+) (%S+) (%d+)$')
  redis.call('SET', lock, owner, 'PX', ms)
  redis.pcall('PUBLISH', channel, owner .. ' ' .. first[2])
  return owner
end

