#!/usr/bin/env python3
"""A push gateway in one file: takes `push.required` from Onescribe, checks the signature, and would call APNs and FCM.

    python3 examples/push_gateway.py PORT SECRET

PORT on 127.0.0.1; SECRET as the webhook has it (whsec_…). Nothing to install; in earnest use the library of
https://www.standardwebhooks.com for your language, and a server that speaks TLS.
"""
import base64
import hashlib
import hmac
import http.server
import json
import sys
import time
from collections import OrderedDict

TOLERANCE_SECS = 300
REMEMBERED_MAX = 10_000
BODY_BYTES_MAX = 4 * 1024 * 1024


def is_genuine(secret, headers, body):
    """Is it from the server, and of now? One of the signatures has to be right: while a secret is changed there are two."""
    call, sent_at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not sent_at.isdigit() or abs(time.time() - int(sent_at)) > TOLERANCE_SECS:
        return False
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{call}.{sent_at}.".encode() + body
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    given = (word.removeprefix("v1,") for word in headers.get("webhook-signature", "").split() if word.startswith("v1,"))
    return any(hmac.compare_digest(expected, one) for one in given)


def devices_of(principal):
    """Your table of push tokens: whose they are your own sign-in knows."""
    return [("apns", f"token of {principal['type']} {principal['id']}")]


def push(service, token, text, badge, collapse):
    """Here APNs (HTTP/2, `apns-collapse-id`) or FCM (HTTP v1, `collapse_key`) is called. Forget tokens that they refuse."""
    print(json.dumps({"to": service, "token": token, "text": text, "badge": badge, "collapse": collapse}), flush=True)


def tell(data):
    message = data["message"]
    # What may be shown on a locked screen is your decision; ENCRYPTED messages have no words to show.
    text = message["content"].get("text") or "New message"
    for one in data["recipients"]:
        for service, token in devices_of(one["principal"]):
            push(service, token, text, one["unread_total"], data["conversation_id"])


class Gateway(http.server.BaseHTTPRequestHandler):
    secret = ""
    known = OrderedDict()

    def do_POST(self):
        length = int(self.headers.get("content-length") or 0)
        if length > BODY_BYTES_MAX:
            return self.answer(413)
        body = self.rfile.read(length)
        if not is_genuine(self.secret, self.headers, body):
            return self.answer(401)
        # At least once means: sometimes twice. The id is the same then.
        call = self.headers["webhook-id"]
        if call not in self.known:
            event = json.loads(body)
            if event["type"] == "push.required":
                tell(event["data"])
            self.known[call] = True
            if len(self.known) > REMEMBERED_MAX:
                self.known.popitem(last=False)
        # Only now: should this process die before, the call comes again.
        return self.answer(204)

    def answer(self, status):
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def main():
    port, Gateway.secret = int(sys.argv[1]), sys.argv[2]
    http.server.HTTPServer(("127.0.0.1", port), Gateway).serve_forever()


if __name__ == "__main__":
    main()
