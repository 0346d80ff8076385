-- Tokens are texts here: a Lua number holds only 53 bits.
local function less(a, b)
  if #a ~= #b then
    return #a < #b
  end
  return a < b
end

-- clock is the time in microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%.0f', time[1] * 1000000 + time[2])
end

-- floor is the number that the next token must exceed, as far as this master knows: the last one that was written to it, or
-- its clock where that is ahead.
local function floor(counter)
  local now, last = clock(), redis.call('GET', counter)
  return last and less(now, last) and last or now
end

