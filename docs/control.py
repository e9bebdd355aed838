"""Sends commands to an agent: python3 control.py RUN_FOLDER COMMAND...; docs/control.md has the protocol."""

import hmac, json, os, socket, sys

folder, *commands = sys.argv[1:]
port = json.load(open(f"{folder}/run.json"))["port"]
token = open(f"{folder}/control.token").readline().strip().encode()
stream = socket.create_connection(("127.0.0.1", port)).makefile("rw", newline="\n")


def mac(*texts):
    parts = [text.encode() for text in texts]
    return hmac.new(token, b"".join(len(p).to_bytes(4, "big") + p for p in parts), "sha256").hexdigest()


def send(line):
    stream.write(line + "\n")
    stream.flush()
    answer = [stream.readline()]
    while answer[-1] not in ("ok\n", "") and not answer[-1].startswith("error: "):
        answer.append(stream.readline())
    return answer


ours = os.urandom(32).hex()
challenge = dict(line.strip().split(": ") for line in send("auth " + ours)[:-1])
theirs = challenge["nonce"]
if not hmac.compare_digest(challenge["proof"], mac("tprofiler 1 agent", ours, theirs)):
    sys.exit("another program listens on the port")
for number, command in enumerate(commands, 1):
    nonces = ours, theirs, str(number)
    signed, *answer = send(f"mac {mac('tprofiler 1 command', *nonces, command)} {command}")
    if signed.strip() != "mac: " + mac("tprofiler 1 answer", *nonces, "".join(answer)):
        sys.exit("".join([signed, *answer]).strip())
    print("".join(answer), end="")
