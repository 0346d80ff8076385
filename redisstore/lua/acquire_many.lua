-- Takes several locks, all or none.
--   KEYS  locks
--   ARGV  owner, lease ms, prefix of our owners
-- Returns {1} or {0, ms left, foreign, number of the key that was taken}.
local owner = ARGV[1]
for i, key in ipairs(KEYS) do
  local holder = redis.call('GET', key)
  if holder and holder ~= owner then
    local foreign = string.sub(holder, 1, #ARGV[3]) == ARGV[3] and 0 or 1
    return {0, redis.call('PTTL', key), foreign, i}
  end
end
for _, key in ipairs(KEYS) do
  redis.call('SET', key, owner, 'PX', ARGV[2])
end
return {1}
