"""A model writes the instruction of a task from its failing tests, through the gateway and within a budget."""

import json
from typing import Any, Final

from proctor.core.agent import KEY_PLACEHOLDER
from proctor.core.errors import LimitReached, RetryableError
from proctor.gateway import Gateway, GatewaySessionSpec

_MAX_TESTS: Final = 20_000
_MAX_LOG: Final = 6_000
_MAX_TOKENS: Final = 2_000
_SECONDS: Final = 600.0
_REQUEST: Final = """\
You write the issue for a task that a programmer gets. Below are the tests that fail today in the repository {name}, \
what they print, and the note of the person who changed the program. Write the issue as a user of the program would \
report it, in Markdown, with a title in the first line:

- Describe what is wrong or missing, and what is expected, so that somebody who has never seen these tests can satisfy \
them: name every function, option, message and format that the tests ask for.
- Do not propose a solution, do not show code of one, do not mention the tests, commits or pull requests.
- Write nothing but the issue.

## The note
{note}

## The failing tests
{names}

```diff
{tests}
```

## What they print
```
{log}
```
"""


class IssueWriter:
    """Asks a model for instructions; each task has a session of its own at the gateway, and all share its budget.

    Args:
        gateway: with the model's backend and the budget.
        url: where it listens.
        model: the model's name.
        dialect: ``messages`` or ``chat``: how it is asked.
    """

    def __init__(self, gateway: Gateway, url: str, model: str, *, dialect: str = "messages") -> None:
        self._gateway = gateway
        self._url = url
        self._model = model
        self._dialect = dialect

    @property
    def cost(self) -> float:
        """What was spent so far, in US dollars."""
        return self._gateway.budget.spent_usd

    async def write(self, task_id: str, *, name: str, note: str, tests: bytes, names: tuple[str, ...], log: str) -> str:
        """The instruction of one task.

        Raises:
            LimitReached: the budget is spent.
            RetryableError: the model cannot be asked, or gives no answer.
        """
        text = _REQUEST.format(
            name=name,
            note=note.strip() or "(none)",
            names="\n".join(f"- {test}" for test in names[:50]),
            tests=tests.decode("utf-8", "replace")[:_MAX_TESTS],
            log=log[-_MAX_LOG:],
        )
        async with self._gateway.session(GatewaySessionSpec(task_id=task_id, label=task_id)) as session:
            answer = await self._ask(f"{self._url}{session.path}", text)
        if self._gateway.budget.exhausted and not answer:
            limit = self._gateway.budget.limit_usd or 0.0
            raise LimitReached("cost", value=self.cost, limit=limit, where="--write-issues")
        if not answer.strip():
            raise RetryableError(f"the model {self._model} wrote no issue for {task_id}")
        return f"{answer.strip()}\n"

    async def _ask(self, base: str, text: str) -> str:
        from aiohttp import ClientError, ClientSession, ClientTimeout

        body: dict[str, Any] = {"model": self._model, "messages": [{"role": "user", "content": text}]}
        if self._dialect == "messages":
            path, headers = "/v1/messages", {"x-api-key": KEY_PLACEHOLDER, "anthropic-version": "2023-06-01"}
            body["max_tokens"] = _MAX_TOKENS
        else:
            path, headers = "/v1/chat/completions", {"authorization": f"Bearer {KEY_PLACEHOLDER}"}
            body["max_completion_tokens"] = _MAX_TOKENS
        try:
            async with (
                ClientSession(timeout=ClientTimeout(total=_SECONDS)) as http,
                http.post(
                    base + path, data=json.dumps(body), headers={**headers, "content-type": "application/json"}
                ) as answer,
            ):
                data = await answer.read()
                status = answer.status
        except ClientError as error:
            raise RetryableError(f"the request to the model failed: {error}") from error
        if status != 200:  # noqa: PLR2004 - done
            if self._gateway.budget.exhausted:
                return ""
            raise RetryableError(f"the model {self._model} refuses: {status} {data[:300].decode(errors='replace')}")
        return _text_of(json.loads(data))


def _text_of(answer: dict[str, Any]) -> str:
    """The text of an answer in either dialect."""
    if "choices" in answer:
        return str(answer["choices"][0]["message"].get("content") or "")
    return "".join(str(part.get("text", "")) for part in answer.get("content", ()) if part.get("type") == "text")
