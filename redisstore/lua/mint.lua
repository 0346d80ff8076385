-- mint reserves n fencing tokens and returns the last one as text, exactly: a Lua number holds only 53 bits.
-- Tokens follow the clock in microseconds, or the counter where that is ahead, so they grow across holders, restarts
-- without data, and fail-over to a server whose clock is not behind by more than an hour; for that long the
-- counter is kept.
local function mint(counter, n)
  local time = redis.call('TIME')
  local clock = time[1] * 1000000 + time[2]
  local last = redis.call('GET', counter)
  if not last or tonumber(last) < clock then
    redis.call('SET', counter, string.format('%.0f', clock))
  end
  redis.call('INCRBY', counter, n)
  last = redis.call('GET', counter)
  local ahead = math.max(0, tonumber(last) - clock) / 1000
  redis.call('PEXPIRE', counter, string.format('%.0f', math.min(ahead, 3e12) + 3600000))
  return last
end

