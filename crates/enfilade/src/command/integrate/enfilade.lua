-- Asks Enfilade whether a request is permitted, before HAProxy passes the request on. Sets these variables of the transaction:
--   txn.enfilade_status   200 if the request is permitted; 303, 401, 403 or 503 if it is not
--   txn.enfilade_location   with the status 303: the URL at which a user signs in with a browser
--   txn.enfilade_user, txn.enfilade_groups, txn.enfilade_roles, txn.enfilade_jwt   the visitor; empty if everybody may send the request

local SOCKET = "unix@@SOCKET@"
local URL = "http://enfilade/decide/haproxy"
local APPLICATION = "@APPLICATION@"
-- The timeout is longer than the time for which Enfilade delays the answer to a wrong password (10 s).
local TIMEOUT_MS = 15000
-- HAProxy 2.6 fails if a question has more headers than `tune.http.maxhdr` (101).
local VALUES_MAX = 40

-- The headers that Enfilade reads. The script also sends all headers with `_` to Enfilade: some applications read `_` as `-`, so Enfilade refuses
-- requests with some of these headers.
local READ = {
    ["authorization"] = true, ["x-auth-token"] = true, ["destination"] = true, ["depth"] = true, ["origin"] = true,
    ["upgrade"] = true, ["sec-websocket-key"] = true, ["sec-websocket-version"] = true,
    ["access-control-request-method"] = true, ["x-http-method-override"] = true, ["x-http-method"] = true,
    ["x-method-override"] = true, ["x-original-url"] = true, ["x-rewrite-url"] = true, ["x-forwarded-prefix"] = true,
    ["x-request-id"] = true, ["accept"] = true, ["sec-fetch-mode"] = true,
}

-- The cookies of Enfilade, which prove who signed in with a browser. The application does not get them.
local OWN = { ["__Host-enfilade"] = true, ["__Host-enfilade-start"] = true, ["__Host-enfilade-sign-in"] = true }

-- Returns all values of a header, in their order. HAProxy counts the values from 0.
local function values(lines)
    local all, at = {}, 0
    while lines[at] ~= nil do
        all[at + 1] = lines[at]
        at = at + 1
    end
    return all
end

-- Returns two lists: the cookies of Enfilade, and the cookies of the application.
local function cookies(lines)
    local own, others = {}, {}
    for _, line in ipairs(values(lines)) do
        for part in string.gmatch(line, "[^;]+") do
            local cookie = string.match(part, "^%s*(.-)%s*$")
            if OWN[string.match(cookie, "^([^=%s]*)")] then
                own[#own + 1] = cookie
            elseif cookie ~= "" then
                others[#others + 1] = cookie
            end
        end
    end
    return own, others
end

local function refuse(txn, status)
    txn:set_var("txn.enfilade_status", status)
    txn:set_var("txn.enfilade_user", "")
    txn:set_var("txn.enfilade_groups", "")
    txn:set_var("txn.enfilade_roles", "")
    txn:set_var("txn.enfilade_jwt", "")
end

core.register_action("enfilade", { "http-req" }, function(txn)
    -- The request counts as refused until Enfilade permits it. So the request is also refused if this script fails.
    refuse(txn, 403)
    local all, headers, count = txn.http:req_get_headers(), {}, 0
    for name, lines in pairs(all) do
        if READ[name] or string.find(name, "_", 1, true) then
            headers[name] = values(lines)
            count = count + #headers[name]
        end
    end
    if count > VALUES_MAX then
        return refuse(txn, 403)
    end
    local own, others = cookies(all["cookie"] or {})
    if #own > 0 then
        headers["cookie"] = { table.concat(own, "; ") }
    end
    headers["x-forwarded-method"] = { txn.f:method() }
    headers["x-forwarded-proto"] = { txn.f:ssl_fc() and txn.f:ssl_fc() ~= 0 and "https" or "http" }
    headers["x-forwarded-host"] = all["host"] and values(all["host"]) or {}
    -- The path is not decoded: Enfilade judges the path as the client sent it, and HAProxy passes this path on.
    headers["x-forwarded-uri"] = { txn.f:pathq() }
    headers["x-forwarded-for"] = { txn.f:src() }
    headers["x-enfilade-application"] = { APPLICATION }
    local answer = core.httpclient():get({ url = URL, headers = headers, dst = SOCKET, timeout = TIMEOUT_MS })
    if answer == nil or answer.status == nil or answer.status == 0 or answer.status >= 500 then
        return refuse(txn, 503)
    end
    local function first(name)
        local lines = answer.headers[name]
        return lines and lines[0] or ""
    end
    if answer.status == 303 then
        txn:set_var("txn.enfilade_location", first("location"))
        return refuse(txn, 303)
    end
    if answer.status ~= 200 then
        return refuse(txn, answer.status == 401 and 401 or 403)
    end
    if #own > 0 then
        txn.http:req_del_header("cookie")
        if #others > 0 then
            txn.http:req_add_header("cookie", table.concat(others, "; "))
        end
    end
    txn:set_var("txn.enfilade_user", first("remote-user"))
    txn:set_var("txn.enfilade_groups", first("remote-groups"))
    txn:set_var("txn.enfilade_roles", first("remote-roles"))
    txn:set_var("txn.enfilade_jwt", first("remote-jwt"))
    txn:set_var("txn.enfilade_status", 200)
end)
