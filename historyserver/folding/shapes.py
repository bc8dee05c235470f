"""What many tasks share: a definition without the task's own id and parent.

A session of a million tasks has a handful of shapes, so each is worked out once and tasks
carry its number.
"""

from __future__ import annotations

import msgspec

from historyserver.folding.ids import PLACEMENT_GROUP_ID_BYTES, is_nil, parse_id
from historyserver.folding.wire import ActorTaskDefinition, TaskDefinition


class Shape(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A definition in the form in which Ray's API shows it; JSON texts are canonical."""

    type: str
    name: str
    func: str
    language: str
    placement_group: str
    required_resources: str
    runtime_env: str
    label_selector: str
    call_site: str
    fallback_strategy: str


class _Function(msgspec.Struct, rename="camel", gc=False):
    class_name: str = ""
    function_name: str = ""


class _Functions(msgspec.Struct, rename="camel", gc=False):
    python_function_descriptor: _Function | None = None
    java_function_descriptor: _Function | None = None
    cpp_function_descriptor: _Function | None = None


_decode_functions = msgspec.json.Decoder(_Functions).decode
_decode_resources = msgspec.json.Decoder(dict[str, float], strict=False).decode
_decode_labels = msgspec.json.Decoder(dict[str, str]).decode
_encode = msgspec.json.Encoder(order="sorted").encode


def shape_of(definition: TaskDefinition | ActorTaskDefinition) -> Shape:
    """Work a shape out. Raises `msgspec.MsgspecError` or `BadIdError` on what is none."""
    if isinstance(definition, ActorTaskDefinition):
        task_type, name, func = "ACTOR_TASK", definition.actor_task_name, definition.actor_func
    else:
        task_type = definition.task_type or "NORMAL_TASK"
        name, func = definition.task_name, definition.task_func
    group = definition.placement_group_id
    raw_group = parse_id(group, PLACEMENT_GROUP_ID_BYTES) if group else b""
    return Shape(
        type=task_type,
        name=name,
        func=function_name(_decode_functions(func)),
        language=definition.language,
        placement_group="" if is_nil(raw_group) else raw_group.hex(),
        required_resources=_encode(_decode_resources(definition.required_resources)).decode(),
        runtime_env=definition.serialized_runtime_env,
        label_selector=_encode(_decode_labels(definition.label_selector)).decode(),
        call_site=definition.call_site,
        fallback_strategy=_canonical(definition.fallback_strategy),
    )


def _canonical(raw: msgspec.Raw) -> str:
    value = msgspec.json.decode(raw) if bytes(raw) else None
    return "" if value is None else _encode(value).decode()


def function_name(functions: _Functions) -> str:
    """Name a function as Ray does (`CallString` of its function descriptors)."""
    if found := functions.python_function_descriptor:
        if not found.class_name:
            return found.function_name.rpartition(".")[2]
        return f"{found.class_name.rpartition('.')[2]}.{found.function_name}"
    if found := functions.java_function_descriptor:
        return f"{found.class_name.rpartition('.')[2]}.{found.function_name}".removeprefix(".")
    if found := functions.cpp_function_descriptor:
        return f"{found.class_name}::{found.function_name}".removeprefix("::")
    return ""


def implied_type(task_id: bytes) -> str:
    """Tell a task's type from its id, for attempts whose definition never came.

    An id is 8 random bytes, 12 of the actor (all ones: no actor) and 4 of the job; the random
    part is all ones for creation tasks and drivers.
    """
    if is_nil(task_id[:20]):
        return "DRIVER_TASK"
    if is_nil(task_id[8:20]):
        return "NORMAL_TASK"
    return "ACTOR_CREATION_TASK" if is_nil(task_id[:8]) else "ACTOR_TASK"
