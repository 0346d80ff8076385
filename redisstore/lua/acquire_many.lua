-- Takes several locks, all or none.
--   KEYS  lock, bars, lock, bars, ...
--   ARGV  owner, lease ms, prefix of our owners
-- Returns {1} or {0, ms left, foreign, number of the lock that was taken}.
local owner = ARGV[1]
for i = 1, #KEYS, 2 do
  local holder = redis.call('GET', KEYS[i])
  if barred(KEYS[i + 1], owner) then
    return {0, 0, 0, (i + 1) / 2}
  end
  if holder and holder ~= owner and not barred(KEYS[i + 1], holder) then
    local foreign = string.sub(holder, 1, #ARGV[3]) == ARGV[3] and 0 or 1
    return {0, redis.call('PTTL', KEYS[i]), foreign, (i + 1) / 2}
  end
end
for i = 1, #KEYS, 2 do
  redis.call('SET', KEYS[i], owner, 'PX', ARGV[2])
end
return {1}
