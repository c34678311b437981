"""The protocol of docs/messaging-protocol.md, version 2.0, with Python's standard library only."""
import base64, datetime, decimal, hashlib, hmac, json, re
FIELDS = ["messageId", "correlationId", "sourceServiceId", "messageType", "endpoint"]
GUID, CONTROL = r"(?i)[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", r"[\0-\x1f\x7f-\x9f]"
HEADER, TIME = r"[a-z][a-z0-9._-]{0,254}", r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{1,9})?Z"
is_text = lambda x, most: isinstance(x, str) and len(x.encode("utf-16-le")) <= 2 * most  # ValueError for a lone surrogate
is_name = lambda x: is_text(x, 255) and x != "" and "\0" not in x and x[-1] != " "

def check(condition):
    if not condition: raise ValueError("malformed")

def number(x):  # as JavaScript writes it: RFC 8785, 3.2.2.3
    check(abs(x) < 2**53)
    if x == int(x): return str(int(x))
    mantissa, _, exponent = repr(x).partition("e")
    if exponent == "": return mantissa
    return mantissa + "e" + str(int(exponent)) if int(exponent) < -6 else format(decimal.Decimal(repr(x)), "f")

def canonical(x, depth=100):  # RFC 8785; str.encode raises ValueError for a lone surrogate
    if x is None or isinstance(x, bool): return json.dumps(x)
    if isinstance(x, (int, float)): return number(x)
    if isinstance(x, str): return json.dumps(x.encode().decode(), ensure_ascii=False)
    check(depth > 0)
    if isinstance(x, list): return "[" + ",".join(canonical(item, depth - 1) for item in x) + "]"
    names = sorted(x, key=lambda name: name.encode("utf-16-be"))
    return "{" + ",".join(canonical(name) + ":" + canonical(x[name], depth - 1) for name in names) + "}"

def signed_bytes(m, destination):
    h, own = m["headers"], ("rf-version", "rf-timestamp", "rf-hmac")
    texts = [h["rf-version"], h["rf-timestamp"], destination, m["sourceServiceId"], m["messageId"], m["correlationId"] or "",
             m["messageType"], m["endpoint"], hashlib.sha256(canonical(m["payload"]).encode()).hexdigest()]
    texts += [text for name in sorted(h) if name not in own for text in (name, h[name])]
    return b"".join(b"%d:%s" % (len(data), data) for data in map(str.encode, texts))

def mac(m, destination, secret):
    return base64.b64encode(hmac.digest(base64.b64decode(secret), signed_bytes(m, destination), "sha256")).decode()

def sign(m, destination, secret, timestamp):
    m = {**m, "headers": {**m["headers"], "rf-version": "2.0", "rf-timestamp": timestamp}}
    m["headers"]["rf-hmac"] = mac(m, destination, secret)
    return json.dumps(m)

def parse(body):
    m = json.loads(body.decode(), parse_constant=lambda name: check(False))
    check(isinstance(m, dict) and set(m) == {*FIELDS, "payload", "headers"})
    m["payload"] = json.loads(canonical(m["payload"]))  # what was signed, -0 as 0
    h = m["headers"]
    check(all(re.fullmatch(HEADER, name) and is_text(x, 8192) and not re.search(CONTROL, x) for name, x in h.items()))
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
