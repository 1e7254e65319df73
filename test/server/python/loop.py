"""Writes each message that it gets as a line of JSON to a file, and answers it. Arguments: the folder of svc.py, the address of
the service, the consumer, the file.
"""
import json
import sys

sys.path.insert(0, sys.argv[1])
from svc import Svc  # noqa: E402

address, consumer, file = sys.argv[2:5]
with Svc(address) as svc, open(file, "a") as lines:
    for message in svc.messages(consumer=consumer):
        said = {"id": message["id"], "user": message["from_user"], "again": message.get("redelivered", False)}
        lines.write(json.dumps(said) + "\n")
        lines.flush()
