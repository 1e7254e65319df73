"""svc from Python: WeChat for a program, by the REST API of a running service. The standard library is enough.

    from svc import Svc
    with Svc("http://127.0.0.1:8000") as svc:
        for message in svc.messages(consumer="my-bot"):
            svc.send(to=message["from_user"], text="You said: " + message["text"])

Without arguments, Svc() reads SVC_URL and SVC_TOKEN. Arguments and answers are those of the REST API, which
GET /docs describes; what has no method here is svc.call("GET", "/outbox"). Times are Unix milliseconds.
Python 3.9 or newer. Threads may share one Svc.
"""
import http.client
import itertools
import json
import os
import random
import ssl
import threading
import time
import uuid
from urllib.parse import quote, unquote, urlencode, urlsplit

# In seconds. A proxy may hold no call for longer than WAIT; if it takes MARGIN more, nobody answers. A lease lasts 45, and
# the event stream says something at least every 8.
WAIT, MARGIN, RENEW, SILENCE = 45, 30, 15, 25
AWAY = ("unreachable", "shutting_down")
LATER = (*AWAY, "store_unavailable", "rate_limited")


class SvcError(Exception):
    """Why a call failed. Decide by `code`, such as "window_closed"; "unreachable": no service answers.

    hint: what to do next. status: of HTTP, or 0. retry_after: in seconds, or None. details: more facts.
    sent: whether the call may have reached the service.
    """

    def __init__(self, code, message, hint=None, status=0, retry_after=None, details=None, sent=False):
        super().__init__(f"{code}: {message}" + (f" {hint}" if hint else ""))
        self.code, self.message, self.hint, self.status = code, message, hint, status
        self.retry_after, self.details, self.sent = retry_after, details or {}, sent


class Svc:
    """A running service.

    url: its address, also below a path of a proxy. key: a key of `svc key add`, or the token of the service.
    patience: how long a call is repeated while no service answers, in seconds; loops go on forever. A call that may
    have reached the service is repeated only if a second one does no harm. cafile: certificates to trust.
    """

    def __init__(self, url=None, key=None, patience=60, cafile=None):
        self._url = urlsplit((url or os.environ.get("SVC_URL") or "http://127.0.0.1:8000").rstrip("/"))
        if self._url.scheme not in ("http", "https") or not self._url.hostname:
            raise SvcError("invalid_arguments", "url: expected an http or https URL")
        self._key = key or os.environ.get("SVC_TOKEN")
        self._patience = patience
        self._tls = ssl.create_default_context(cafile=cafile) if self._url.scheme == "https" else None
        self._closed = threading.Event()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends the loops: each after the message that it works on, or when its wait is over."""
        self._closed.set()

    def recv(self, **arguments):
        """Returns new messages: consumer, timeout, limit, after, ack, session."""
        repeats = "after" in arguments or "ack" in arguments
        return self._tool("recv", arguments, wait=arguments.get("timeout", 5), repeats=repeats)

    def send(self, to, text=None, **arguments):
        """Sends text, files or both to one user.

        Files of this machine: image_path, file_path, video_path, voice_path; media: a list of {"kind", "path"}.
        Without an idempotency_key the call makes its own, so it can be repeated by itself.
        """
        media = [
            {"kind": kind, "path": arguments.pop(kind + "_path")}
            for kind in ("image", "voice", "file", "video")
            if kind + "_path" in arguments
        ]
        if "file_name" in arguments and len(media) == 1:
            media[0]["file_name"] = arguments.pop("file_name")
        media = [self._uploaded(one) for one in media + list(arguments.pop("media", []))]
        said = {"text": text, "media": media or None, "to": to}
        whole = {"idempotency_key": str(uuid.uuid4()), **arguments, **{key: said[key] for key in said if said[key]}}
        return self._tool("send", whole, wait=300, repeats=True)

    def download(self, message_id, path=".", item=0):
        """Saves the media of a message: in a folder, or under a new name. Returns the path."""
        route = f"/media/{quote(str(message_id), safe='')}/{item}"
        with self._open("GET", route, wait=120, repeats=True) as answer:
            if os.path.isdir(path):
                path = os.path.join(path, _name_of(answer.headers.get("content-disposition", "")))
            part = f"{path}.{uuid.uuid4().hex}.part"
            try:
                with open(part, "xb") as file:
                    for block in iter(lambda: answer.read(256 * 1024), b""):
                        file.write(block)
                if answer.length:
                    raise SvcError("unreachable", "the connection was lost", sent=True)
                path = _free(path)
                os.rename(part, path)
            finally:
                if os.path.exists(part):
                    os.unlink(part)
        return path

    def history(self, **filters):
        """Returns a page of the stored messages, the newest first."""
        return self._tool("history", filters, repeats=True)

    def sessions(self):
        """Lists the accounts and their status."""
        return self._tool("sessions", {}, repeats=True)

    def login(self, **arguments):
        """Logs in by QR code. Call it again to follow the login."""
        return self._tool("login", arguments, wait=arguments.get("timeout", 30), repeats=True)

    def logout(self, **arguments):
        """Ends a session and deletes its credentials: session_name."""
        return self._tool("logout", arguments)

    def rename_session(self, old_name, new_name):
        """Renames a session."""
        return self._tool("rename_session", {"old_name": old_name, "new_name": new_name})

    def set_default(self, session_name):
        """Makes a session the default."""
        return self._tool("set_default", {"session_name": session_name})

    def messages(self, consumer=None, session=None, after="end"):
        """Yields messages as they come, until close().

        With a consumer, svc keeps its position, and several programs may share it. A message is done when the next one
        is asked for. Leave the loop, or die, and it comes again, marked "redelivered". While a program works on a
        message of a person, no other one gets the next message of this person.
        Without one, the messages after the row `after` come, by default those from now on; nothing is stored.
        """
        given = {"timeout": WAIT, **({} if session is None else {"session": session})}
        follow = self._follow(given, after) if consumer is None else self._leased(consumer, given)
        return self._until_closed(follow)

    def ask(self, to, text, choices=("yes", "no"), timeout=600, **arguments):
        """Asks a person, and returns the choice. Without an answer it raises "no_answer", which is never a yes."""
        asked = {"to": to, "text": text, "choices": list(choices), "timeout": timeout}
        asked = {"idempotency_key": str(uuid.uuid4()), **arguments, **asked}
        question = self._json("POST", "/questions", asked, wait=60, repeats=True)
        route = f"/questions/{question['id']}"
        try:
            while question["status"] not in ("answered", "unanswered", "cancelled"):
                question = self._forever(self._json, "GET", route, {"wait": WAIT}, wait=WAIT, repeats=True)
        except (KeyboardInterrupt, SystemExit):
            self._json("DELETE", route, repeats=True, patience=2)
            raise
        if question["status"] != "answered":
            raise SvcError("no_answer", "nobody answered in time")
        return question["choice"]

    def notify(self, topic, text="", **more):
        """Says something to a topic: title, priority, tags, click, fingerprint, resolved."""
        return self._json("POST", f"/topics/{quote(topic, safe='')}/notices", {**more, "text": text})

    def events(self, after=None, **filters):
        """Yields all that happens, as {"id", "type", "timestamp", "data"}, and goes on after a lost connection.

        after: id of an event, or a time; "0": all that is stored. Filters: types (a list), session, user.
        """
        if "types" in filters and not isinstance(filters["types"], str):
            filters["types"] = ",".join(filters["types"])
        return self._until_closed(self._stream(after, filters))

    def upload(self, path, file_name=None):
        """Uploads a file as a stream. Returns its upload_id, for media of send."""
        route = "/media?" + urlencode({"file_name": file_name or os.path.basename(path)})
        return self._json("POST", route, file=path, wait=120, repeats=True)["upload_id"]

    def call(self, method, path, arguments=None, wait=0, repeats=False):
        """Calls any route, and returns its JSON. arguments: the query of GET and DELETE, else the body.

        wait: how long the service may wait before it answers, in seconds. repeats: whether a second call does no harm.
        """
        return self._json(method, path, arguments, wait=wait, repeats=repeats or method == "GET")

    def _tool(self, name, arguments, **plan):
        return self._json("POST", f"/tools/default/{name}", arguments, **plan)

    def _uploaded(self, media):
        rest = dict(media)
        if "path" not in rest:
            return rest
        path = rest.pop("path")
        return {"file_name": os.path.basename(path), **rest, "upload_id": self.upload(path, rest.get("file_name"))}

    def _until_closed(self, loop):
        try:
            yield from loop
        except SvcError:
            if not self._closed.is_set():
                raise

    def _follow(self, given, after):
        while not self._closed.is_set():
            body = {**given, "after": after}
            with self._forever(self._open, "POST", "/tools/default/recv", body, wait=WAIT, repeats=True) as answer:
                found = json.load(answer)
                after = int(answer.headers["svc-position"])
            yield from found

    def _leased(self, consumer, given):
        leases = f"/consumers/{quote(consumer)}/leases"
        while not self._closed.is_set():
            for one in self._forever(self._json, "POST", leases, given, wait=WAIT):
                held, read, done = {"leases": [one["lease"]]}, False, threading.Event()
                threading.Thread(target=self._renew, args=(leases, held, done), daemon=True).start()
                try:
                    yield one["message"]
                    read = True
                finally:
                    done.set()
                    settle = self._forever if read else self._once
                    settle(self._json, "POST", leases + "/settle", {**held, "read": read}, repeats=True)

    def _renew(self, leases, held, done):
        while not done.wait(RENEW):
            self._once(self._json, "POST", leases + "/renew", held, repeats=True)

    def _once(self, ask, *arguments, **plan):
        try:
            ask(*arguments, **plan, patience=2)
        except SvcError:
            pass  # The lease ends by itself, and the message comes again.

    def _stream(self, after, filters):
        while not self._closed.is_set():
            headers = {} if after is None else {"last-event-id": str(after)}
            plan = {"headers": headers, "wait": SILENCE - MARGIN, "repeats": True}
            try:
                with self._forever(self._open, "GET", "/events", filters, **plan) as answer:
                    event = {}
                    for line in answer:
                        name, _, value = line.decode().rstrip("\r\n").partition(": ")
                        event[name] = value
                        if line.strip():
                            continue
                        if event.get("data"):
                            yield json.loads(event["data"])
                        after, event = event.get("id", after), {}
                        if self._closed.is_set():
                            return
            except (OSError, http.client.HTTPException):
                pass  # It goes on with a new connection.
            self._closed.wait(_backoff(1))

    def _forever(self, ask, *arguments, **plan):
        """Repeats a call while the service is away, or says to wait."""
        failures = 0
        while True:
            try:
                return ask(*arguments, **plan)
            except SvcError as error:
                if error.code not in LATER or self._closed.is_set():
                    raise
                failures += 1
                self._closed.wait(error.retry_after or _backoff(failures))

    def _json(self, *arguments, **plan):
        return self._open(*arguments, **plan, read=json.load)

    def _open(self, method, path, body=None, wait=0, repeats=False, patience=None, **plan):
        """Calls a route, again while no service answers. Returns what `read` makes of the answer, or the answer."""
        until = time.monotonic() + (self._patience if patience is None else patience)
        failures = 0
        while True:
            try:
                return self._try(method, path, body, wait + MARGIN, **plan)
            except SvcError as error:
                failures += 1
                pause = _backoff(failures)
                is_over = time.monotonic() + pause > until
                if error.code not in AWAY or is_over or (error.sent and not repeats):
                    raise
            time.sleep(pause)

    def _try(self, method, path, body, seconds, headers=None, file=None, read=None):
        headers = {"connection": "close", **(headers or {})}
        if self._key:
            headers["authorization"] = f"Bearer {self._key}"
        if body is not None and method in ("GET", "DELETE"):
            query = {key: str(value).lower() if value in (True, False) else value for key, value in body.items()}
            path, body = f"{path}?{urlencode(query)}", None
        elif body is not None:
            body = json.dumps(body).encode()
            headers["content-type"] = "application/json"
        secure = {} if self._tls is None else {"context": self._tls}
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        connection = kind(self._url.hostname, self._url.port, timeout=seconds, **secure)
        sent = False
        try:
            connection.connect()
            sent = True
            if file is None:
                connection.request(method, self._url.path + path, body, headers)
            else:
                with open(file, "rb") as source:
                    size = str(os.fstat(source.fileno()).st_size)
                    headers.update({"content-type": "application/octet-stream", "content-length": size})
                    connection.request(method, self._url.path + path, source, headers)
            answer = connection.getresponse()
            if answer.status >= 300:
                raise _error_of(answer)
            return answer if read is None else read(answer)
        except ssl.SSLCertVerificationError:
            raise
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise SvcError("unreachable", f"{self._url.geturl()}: {error}", sent=sent) from error


def _error_of(answer):
    problem = {}
    if answer.headers.get_content_type() == "application/problem+json":
        problem = json.load(answer)
    # A proxy in between has no codes.
    codes = {401: "unauthorized", 403: "forbidden", 404: "not_found", 502: AWAY[0], 503: AWAY[0], 504: AWAY[0]}
    code = problem.get("code") or codes.get(answer.status, "internal")
    more = {key: problem.get(key) for key in ("hint", "retry_after", "details")}
    return SvcError(code, problem.get("detail") or f"HTTP {answer.status}", status=answer.status, sent=True, **more)


def _backoff(failures):
    return min(5, 0.2 * 2 ** (failures - 1)) * random.uniform(0.5, 1)


def _name_of(disposition):
    """The name that the service made safe, and once more: a file is never outside its folder."""
    name = unquote(disposition.partition("filename*=UTF-8''")[2].partition(";")[0])
    name = "".join("_" if letter in '/\\:\0' or ord(letter) < 32 else letter for letter in name)
    return name.lstrip(".") or "file"


def _free(path):
    base, ending = os.path.splitext(path)
    names = itertools.chain([path], (f"{base}-{number}{ending}" for number in itertools.count(1)))
    return next(name for name in names if not os.path.lexists(name))
