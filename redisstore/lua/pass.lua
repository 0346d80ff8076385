-- pass gives a lock to the first in its queue and tells it so. It returns the new owner, or false if nobody queues. A place
-- in the queue is "channel owner milliseconds"; its score is its ticket. Whoever has not been heard of for two seconds, several
-- polls, is passed over: it is dead, or comes back and queues anew. A server that does not let us publish has passed the
-- lock on all the same: its new owner finds out when it asks again.
local function pass(lock, queue, heard)
  while true do
    local first = redis.call('ZPOPMIN', queue)
    if not first[1] then
      return false
    end
    local time = redis.call('TIME')
    local last = redis.call('HGET', heard, first[1])
    redis.call('HDEL', heard, first[1])
    if not last or time[1] * 1000000 + time[2] - last <= 2000000 then
      local channel, owner, ms = string.match(first[1], '^(%S+) (%S+) (%d+)$')
      redis.call('SET', lock, owner, 'PX', ms)
      redis.pcall('PUBLISH', channel, owner .. ' ' .. first[2])
      return owner
    end
  end
end

