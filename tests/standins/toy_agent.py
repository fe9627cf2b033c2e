"""A cheap agent that really talks to its model: so many turns, and the last response is its submission."""

import http.client
import json
import os
import sys
from urllib.parse import urlsplit

TURNS = int(os.environ["PROCTOR_MAX_TURNS"])


def say(messages: list[dict[str, str]], *, stream: bool) -> str:
    url = urlsplit(os.environ["ANTHROPIC_BASE_URL"])
    body = {"model": os.environ["PROCTOR_MODEL"], "max_tokens": 10, "messages": messages, "stream": stream}
    connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=600)
    try:
        connection.request(
            "POST",
            f"{url.path}/v1/messages",
            body=json.dumps(body).encode(),
            headers={"content-type": "application/json", "x-api-key": os.environ["ANTHROPIC_API_KEY"]},
        )
        response = connection.getresponse()
        data = response.read().decode()
    except (OSError, http.client.HTTPException) as error:
        print(f"no response: {error}", file=sys.stderr)
        sys.exit(75)
    if response.status != 200:
        print(f"status {response.status}: {data[:300]}", file=sys.stderr)
        sys.exit({400: 1, 401: 77, 402: 1, 403: 77}.get(response.status, 75))
    try:
        if not stream:
            return str(json.loads(data)["content"][0]["text"])
        events = [json.loads(line[6:]) for line in data.splitlines() if line.startswith("data: ")]
        assert events[-1]["type"] == "message_stop"
    except (ValueError, LookupError, AssertionError):
        print(f"this is no response: {data[:300]}", file=sys.stderr)
        sys.exit(75)
    return "".join(event["delta"].get("text", "") for event in events if event["type"] == "content_block_delta")


with open(os.environ["PROCTOR_INSTRUCTION_FILE"]) as file:
    messages = [{"role": "user", "content": file.read()}]
for turn in range(TURNS):
    text = say(messages, stream=turn % 2 == 0)
    print(text, flush=True)
    with open("answer.txt", "w") as submission_file:
        submission_file.write(text + "\n")
    messages += [{"role": "assistant", "content": text}, {"role": "user", "content": f"and then? ({turn})"}]
