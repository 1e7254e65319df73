"""Uses every method of svc.py against a running service with a sandbox, and prints what came as JSON.

Arguments: the folder of svc.py, the address of the service, that of the phone, a folder to write in.
"""
import json
import os
import sys
import threading
import time
import urllib.request

sys.path.insert(0, sys.argv[1])
from svc import Svc, SvcError  # noqa: E402

api, phone, folder = sys.argv[2:5]
said = {}


def on_phone(path, body):
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(f"{phone}/phone/{path}", json.dumps(body).encode(), headers)
    return json.load(urllib.request.urlopen(request))


def beside(work):
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def say(*texts):
    for text in texts:
        on_phone("say", {"text": text})


svc = Svc(api)
shown = svc.login()
on_phone("scan", {"confirm": True, "qrcode": shown["qr_url"]})
said["login"] = [shown["status"], svc.login(timeout=10)["status"]]
said["sessions"] = [one["status"] for one in svc.sessions()]

# The first call of a consumer gives it its position.
svc.call("POST", "/consumers/bot/leases", {"timeout": 0})
say("a", "b", "c")
got = []
for message in svc.messages(consumer="bot"):
    got.append([message["text"], message.get("redelivered", False)])
    if message["text"] == "b":
        break
with Svc(api) as own:
    for message in own.messages(consumer="bot"):
        got.append([message["text"], message.get("redelivered", False)])
        if message["text"] == "c":
            own.close()
said["messages"] = got
said["left"] = svc.call("POST", "/consumers/bot/leases", {"timeout": 0})
user = message["from_user"]

content = os.urandom(3_000_000)
file = os.path.join(folder, "file.bin")
with open(file, "wb") as target:
    target.write(content)
said["sent"] = [svc.send(user, "hello")["status"], svc.send(user, file_path=file, file_name="name.bin")["status"]]
newest = svc.history(limit=1)["messages"][0]
paths = [svc.download(newest["message_id"], folder) for _ in range(2)]
same = [open(path, "rb").read() == content for path in paths]
said["files"] = [[os.path.basename(path) for path in paths], same]

heard = []
following = threading.Event()


def follow():
    loop = svc.messages(after=svc.history(limit=1)["messages"][0]["id"])
    following.set()
    for message in loop:
        heard.append(message["text"])
        if message["text"] == "z":
            return


thread = beside(follow)
following.wait()
say("x", "y", "z")
thread.join()
said["followed"] = heard
said["events"] = []
for event in svc.events(after="0", types=["message.received"]):
    said["events"].append(event["data"]["text"])
    if event["data"]["text"] == "z":
        break


def answer():
    question = {"text": "", "status": ""}
    while "Deploy?" not in question["text"] or question["status"] != "accepted":
        time.sleep(0.05)
        question = svc.history(limit=1)["messages"][0]
    # A plain word that comes so soon may have been written before. The code with the number is always an answer.
    say(question["text"].splitlines()[-1].split(" = ")[0])


thread = beside(answer)
said["asked"] = svc.ask(user, "Deploy?", ["yes", "no"], timeout=60)
thread.join()
svc.call("POST", "/topics", {"name": "home", "to": [user]})
said["notified"] = svc.notify("home", "the washing machine", title="Done", tags=["soap"])["topic"]
said["renamed"] = svc.rename_session("default", "work")["success"]
said["default"] = svc.set_default("work")["success"]
said["received"] = [one["text"] for one in svc.recv(consumer="fresh", after=0)][:2]

errors = []
for work in (
    lambda: svc.call("GET", "/outbox/999"),
    lambda: svc.send("nobody@im.wechat", "hello"),
    lambda: svc.send(user),
    lambda: Svc("http://127.0.0.1:9", patience=0).sessions(),
    lambda: Svc("ftp://somewhere"),
    lambda: list(svc.messages(consumer="not a name")),
):
    try:
        work()
        errors.append("none")
    except SvcError as error:
        errors.append([error.code, error.status])
said["errors"] = errors
svc.logout(session_name="work")
said["after"] = svc.sessions()
print(json.dumps(said))
