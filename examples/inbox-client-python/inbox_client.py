"""A client of the inbox service, with nothing but Python's standard library (3.8 or later)."""

import contextlib, http.client, json, time, uuid
import urllib.parse, urllib.request


class InboxServiceError(Exception):
    """The service refused a call, or could not be reached."""


class _AnyAnswer(urllib.request.HTTPErrorProcessor):
    """Returns every answer as it is. So no redirect is followed: another host must not get the token."""
    http_response = https_response = lambda self, request, response: response


class InboxClient:
    def __init__(self, url, token=None, timeout_seconds=5, attempts=5):
        self.base, self.timeout_seconds, self.attempts = url.rstrip("/") + "/v1/inbox/", timeout_seconds, attempts
        self.headers = {"content-type": "application/json", **({"authorization": "Bearer " + token} if token else {})}
        self.open = urllib.request.build_opener(_AnyAnswer).open

    def try_begin(self, key, owner=None, lease_seconds=30):
        """Acquired with a leaseId, Processed or Busy. A repeated request has the same lease id, so it gets the same lease."""
        body = {"key": key, "leaseSeconds": lease_seconds, "leaseId": str(uuid.uuid4())}
        return self._call("try-begin", dict(body, owner=owner) if owner else body)

    def mark_processed(self, key, lease_id):
        return self._call("mark-processed", {"key": key, "leaseId": lease_id})

    def renew(self, key, lease_id, lease_seconds=30):
        return self._call("renew", {"key": key, "leaseId": lease_id, "leaseSeconds": lease_seconds})

    def release(self, key, lease_id):
        return self._call("release", {"key": key, "leaseId": lease_id})

    def inspect(self, key):
        return self._call(urllib.parse.quote(key, safe=""))

    def handle_once(self, key, work, owner=None, lease_seconds=30):
        """Calls work() unless the key is processed or busy. It has to end within the lease. Returns what became of the key."""
        begun = self.try_begin(key, owner, lease_seconds)
        if begun["status"] != "Acquired":
            return begun["status"]
        try:
            work()
        except BaseException:
            with contextlib.suppress(InboxServiceError):  # the lease ends by itself
                self.release(key, begun["leaseId"])
            raise
        return "Handled" if self.mark_processed(key, begun["leaseId"])["status"] == "Processed" else "LeaseLost"

    def _call(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, self.headers)
        for attempt in range(1, self.attempts + 1):
            wait_seconds = 0.1 * 2**attempt
            try:
                with self.open(request, timeout=self.timeout_seconds) as response:
                    text = response.read(65536).decode("utf-8", "replace")
                    if response.status == 200:
                        return json.loads(text)
                    problem = "the service answered %d: %s" % (response.status, text[:500])
                    if response.status < 500 and response.status not in (408, 429):
                        raise InboxServiceError(problem)
                    retry_after = response.headers.get("retry-after", "")
                    wait_seconds = max(wait_seconds, int(retry_after) if retry_after.isdigit() else 0)
            except (OSError, ValueError, http.client.HTTPException) as error:  # no connection, no answer in time, or half of one
                problem = "the service could not be reached: %s" % error
            if attempt < self.attempts:
                time.sleep(wait_seconds)
        raise InboxServiceError(problem)
