"""The protocol of docs/messaging-protocol.md, version 2.0, with Python's standard library alone."""
import base64, datetime, hashlib, hmac, json, re
FIELDS = ["messageId", "correlationId", "sourceServiceId", "messageType", "endpoint"]
JSON = json.JSONDecoder(parse_constant=lambda name: check(False))
GUID, CONTROL = r"(?i)[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", r"[\0-\x1f\x7f-\x9f]"
HEADER, TIME = r"[a-z][a-z0-9._-]{0,254}", r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{1,9})?Z"
is_text = lambda x, most: isinstance(x, str) and len(x.encode("utf-16-le")) <= 2 * most  # ValueError for a lone surrogate
is_name = lambda x: is_text(x, 255) and x != "" and "\0" not in x and x[-1] != " "
depth = lambda x: 1 + max(map(depth, x.values() if isinstance(x, dict) else x), default=0) if isinstance(x, (dict, list)) else 0
skip = lambda text, at: re.compile(r"[ \t\n\r]*").match(text, at).end()

def check(condition):
    if not condition: raise ValueError("malformed")

def signed_bytes(m, destination):
    h, own = m["headers"], ("rf-version", "rf-timestamp", "rf-hmac")
    texts = [h["rf-version"], h["rf-timestamp"], destination, m["sourceServiceId"], m["messageId"], m["correlationId"] or "",
             m["messageType"], m["endpoint"], hashlib.sha256(m["payloadText"].encode()).hexdigest()]
    texts += [text for name in sorted(h) if name not in own for text in (name, h[name])]
    return b"".join(b"%d:%s" % (len(data), data) for data in map(str.encode, texts))

def mac(m, destination, secret):
    return base64.b64encode(hmac.digest(base64.b64decode(secret), signed_bytes(m, destination), "sha256")).decode()

def sign(m, destination, secret, timestamp):
    m = {**m, "headers": {**m["headers"], "rf-version": "2.0", "rf-timestamp": timestamp}}
    m["headers"]["rf-hmac"] = mac(m, destination, secret)
    texts = {**{name: json.dumps(m[name]) for name in FIELDS}, "payload": m["payloadText"], "headers": json.dumps(m["headers"])}
    return "{" + ", ".join('"%s": %s' % item for item in texts.items()) + "}"

def members(text):
    found, end, opening = {}, 0, "{"
    while text[skip(text, end):][:1] == opening:
        name, end = JSON.raw_decode(text, skip(text, skip(text, end) + 1))
        check(isinstance(name, str) and name not in found and text[skip(text, end):][:1] == ":")
        start = skip(text, skip(text, end) + 1)
        value, end = JSON.raw_decode(text, start)
        found[name], opening = (value, text[start:end]), ","
    check(found and text[end:].strip(" \t\n\r") == "}")
    return found

def parse(body):
    found = members(body.decode())
    check(set(found) == {*FIELDS, "payload", "headers"} and depth(found["payload"][0]) <= 100)
    json.dumps(found["payload"][0], ensure_ascii=False).encode()  # ValueError for a lone surrogate
    h = {name: value for name, (value, _) in members(found["headers"][1]).items()}
    check(all(re.fullmatch(HEADER, name) and is_text(x, 8192) and not re.search(CONTROL, x) for name, x in h.items()))
    m = {**{name: found[name][0] for name in FIELDS}, "headers": h, "payloadText": found["payload"][1]}
    check(all(is_name(m[name]) or (name == "correlationId" and m[name] is None) for name in FIELDS))
    check(re.fullmatch(GUID, m["messageId"]) and m["messageType"] in ("Signal", "Command", "PushCall", "Response"))
    check(h["rf-version"] == "2.0" and "rf-hmac" in h and len(h) <= 67)
    day, fraction = re.fullmatch(TIME, h["rf-timestamp"], re.A).groups()
    return m, datetime.datetime.strptime(day + "+0000", "%Y-%m-%dT%H:%M:%S%z").timestamp() + float(fraction or 0)

def open_message(body, service_id, sources, now, tolerance=300.0):
    try: m, timestamp = parse(body)
    except (ValueError, LookupError, AttributeError, RecursionError): return "malformed", None
    secrets = sources.get(m["sourceServiceId"], []) if abs(now - timestamp) <= tolerance else []
    right = [hmac.compare_digest(m["headers"]["rf-hmac"].encode(), mac(m, service_id, secret).encode()) for secret in secrets]
    return ("opened", m) if any(right) else ("refused", None)
