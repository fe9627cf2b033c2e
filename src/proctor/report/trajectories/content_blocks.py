"""The content blocks of the Messages API, which Claude Code's stream and the gateway's recording both contain."""

from typing import Any, Final, NamedTuple

from proctor.core.trajectory import ToolCall

# Text that Claude Code adds to the user's message.
_SYSTEM_REMINDER: Final = "<system-reminder>"


class AssistantContent(NamedTuple):
    """The content of an assistant message."""

    text: str
    thinking: str
    calls: tuple[ToolCall, ...]


class ToolResult(NamedTuple):
    """The result of one call."""

    call_id: str
    output: str
    failed: bool


class UserContent(NamedTuple):
    """The content of a user message."""

    texts: tuple[str, ...]
    reminders: tuple[str, ...]
    results: tuple[ToolResult, ...]


def parse_assistant(content: Any) -> AssistantContent:
    """Read an assistant message's content."""
    texts, thoughts, calls = [], [], []
    for block in _blocks(content):
        match block.get("type"):
            case "text":
                texts.append(_text(block.get("text")))
            case "thinking":
                thoughts.append(_text(block.get("thinking")))
            case "redacted_thinking":
                thoughts.append("[redacted by the provider]")
            case "tool_use" | "server_tool_use" | "mcp_tool_use":
                arguments = block.get("input")
                calls.append(
                    ToolCall(
                        id=_text(block.get("id")),
                        name=_text(block.get("name")),
                        arguments=arguments if isinstance(arguments, dict) else {"input": arguments},
                    )
                )
            case other:
                texts.append(f"[{_text(other) or 'unknown block'}]")
    return AssistantContent("\n\n".join(filter(None, texts)), "\n\n".join(filter(None, thoughts)), tuple(calls))


def parse_user(content: Any) -> UserContent:
    """Read a user message's content."""
    texts, reminders = list[str](), list[str]()
    results: list[ToolResult] = []
    for block in _blocks(content):
        if block.get("type") == "tool_result":
            output = content_text(block.get("content"))
            results.append(ToolResult(_text(block.get("tool_use_id")), output, block.get("is_error") is True))
        else:
            text = content_text([block])
            (reminders if text.lstrip().startswith(_SYSTEM_REMINDER) else texts).append(text)
    return UserContent(tuple(filter(None, texts)), tuple(filter(None, reminders)), tuple(results))


def content_text(content: Any) -> str:
    """Content as text; blocks that are no text are named by their type."""
    parts = [
        _text(block.get("text")) if "text" in block else f"[{_text(block.get('type')) or 'unknown block'}]"
        for block in _blocks(content)
    ]
    return "\n".join(filter(None, parts))


def _blocks(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _text(value: Any) -> str:
    # A lone surrogate, from a program that cuts text anywhere, cannot be written as UTF-8.
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""
