-- Mints fencing tokens if the lock is the owner's.
--   KEYS  lock, counter
--   ARGV  owner, tokens, a number that they must be above
-- Returns {1, last token} or {0}.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return {0}
end
local last = redis.call('GET', KEYS[2]) or '0'
-- As text: a Lua number holds only 53 bits.
if #ARGV[3] > #last or (#ARGV[3] == #last and ARGV[3] > last) then
  redis.call('SET', KEYS[2], ARGV[3])
end
return {1, mint(KEYS[2], ARGV[2])}
