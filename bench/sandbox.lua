-- Requests to a sandbox by wrk, with every body checked: only right answers are counted.
--
--     wrk -t1 -c8 -d5 -s bench/sandbox.lua http://127.0.0.1:8002/v1/execute
--
-- BODY is the request's body (default: print(1)); NEEDS says what a right answer contains, one line
-- for each text: how often it stands there, a space, the text.

wrk.method = "POST"
wrk.body = os.getenv("BODY") or '{"code": "print(1)"}'
wrk.headers["content-type"] = "application/json"

local threads = {}
local needs = {}
for line in (os.getenv("NEEDS") or '1 "status":"accepted"\n1 "stdout":"1\\n"'):gmatch("[^\n]+") do
  local times, text = line:match("^(%d+) (.*)$")
  needs[text] = tonumber(times)
end

local function count(body, text)
  local found, from = 0, 1
  while true do
    local first, last = body:find(text, from, true)
    if not first then return found end
    found, from = found + 1, last + 1
  end
end

function setup(thread)
  table.insert(threads, thread)
end

function init()
  num_right, num_others = 0, 0
end

function response(status, headers, body)
  local right = status == 200
  for text, times in pairs(needs) do
    right = right and count(body, text) == times
  end
  if right then num_right = num_right + 1 else num_others = num_others + 1 end
end

function done(summary, latency)
  local right, others = 0, 0
  for _, thread in ipairs(threads) do
    right = right + thread:get("num_right")
    others = others + thread:get("num_others")
  end
  local p50_ms, p99_ms = latency:percentile(50) / 1000, latency:percentile(99) / 1000
  local per_s = right / (summary.duration / 1e6)
  print(string.format("%.1f right/s, %d not right, p50 %.2f ms, p99 %.2f ms", per_s, others, p50_ms, p99_ms))
end
