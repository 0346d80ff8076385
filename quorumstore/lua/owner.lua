-- A lock's value is its owner, a dot, and the number of the attempt that took it, which is of fixed width: a later attempt of
-- the same owner compares as larger.

-- owned tells whether a value is the owner's, from whichever attempt.
local function owned(value, owner)
  return value and string.sub(value, 1, #owner + 1) == owner .. '.'
end

-- barred tells whether the attempt that made a value, or its owner, was given up for good.
local function barred(bars, value)
  if redis.call('ZSCORE', bars, value) then
    return true
  end
  local owner = string.match(value, '^(.*)%.%x+$')
  return owner and redis.call('ZSCORE', bars, owner)
end

-- hint tells the first in the queue to ask again. A member of the queue is "channel owner". Where we may not publish it
-- polls.
local function hint(queue)
  local first = redis.call('ZPOPMIN', queue)
  if first[1] then
    local channel, owner = string.match(first[1], '^(%S+) (%S+)$')
    redis.pcall('PUBLISH', channel, owner)
    return true
  end
  return false
end

