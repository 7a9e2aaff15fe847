"""Requests decoded: nothing is lost, nothing unknown gets in, and a refusal names the field as the wire does."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crishim import model
from crishim.cri.v1 import runtime_pb2 as pb
from crishim.errors import InvalidArgument, Kind
from crishim.rpc import decode as decoding
from crishim.rpc.decode import FOR_WINDOWS, decode, decode_field, refuse_windows

CLASSES = [getattr(model, name) for name in model.__all__ if dataclasses.is_dataclass(getattr(model, name))]
MESSAGES = pb.DESCRIPTOR.message_types_by_name
OTHER_NAMES = {"uidMappings": "uid_mappings", "gidMappings": "gid_mappings", "CDI_devices": "cdi_devices"}
WRAPPERS = {"Int64Value", "PodSandboxStateValue", "ContainerStateValue"}
RANGES = {
    FieldDescriptor.TYPE_INT32: st.integers(-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_INT64: st.integers(-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_UINT32: st.integers(0, 2**32 - 1),
    FieldDescriptor.TYPE_UINT64: st.integers(0, 2**64 - 1),
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_STRING: st.text(max_size=4),
    FieldDescriptor.TYPE_BYTES: st.text(max_size=4),  # decoded to text
}


def model_name(wire_name: str) -> str:
    return OTHER_NAMES.get(wire_name, wire_name)


def is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def refusal(call: Callable[[], object]) -> tuple[str, str]:
    with pytest.raises(InvalidArgument) as caught:
        call()
    assert caught.value.kind is Kind.INVALID_ARGUMENT
    field, text = caught.value.field, str(caught.value)
    assert text.startswith(f"{field}: ")
    return field, text.removeprefix(f"{field}: ")


# --- Nothing is forgotten -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)
def test_every_field_of_the_message_has_a_place(cls: type) -> None:
    message = MESSAGES[cls.__name__]
    places = {field.name for field in dataclasses.fields(cls)}
    homeless = {field.name for field in message.fields if model_name(field.name) not in places}
    assert homeless == {name for owner, name in FOR_WINDOWS if owner == message.name}
    assert places <= {model_name(field.name) for field in message.fields}


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)
def test_no_default_differs_from_the_wires(cls: type) -> None:
    assert decode(getattr(pb, cls.__name__)(), cls) == cls()


def test_only_windows_is_refused_as_a_whole() -> None:
    for owner, name in FOR_WINDOWS:
        field = MESSAGES[owner].fields_by_name[name]
        assert field.message_type is not None
        assert field.message_type.name.startswith("Windows")


def reachable(message: Descriptor) -> set[str]:
    """Names of the messages under `message`, without those that are refused as a whole."""
    names = {message.name}
    for field in message.fields:
        inner = field.message_type
        if inner is not None and not is_map(field) and (message.name, field.name) not in FOR_WINDOWS:
            names |= reachable(inner)
    return names


def test_every_message_below_a_request_has_a_class_unless_it_is_named_here() -> None:
    later = {"RuntimeConfig", "NetworkConfig"}
    methods = [method for service in pb.DESCRIPTOR.services_by_name.values() for method in service.methods]
    requests = {method.input_type for method in methods}
    below = set().union(*(reachable(request) for request in requests)) - {request.name for request in requests}
    assert below - WRAPPERS - later == {cls.__name__ for cls in CLASSES}


# --- There and back -------------------------------------------------------------------------------------------------


def values(message: Descriptor) -> st.SearchStrategy[Any]:
    """Values of the model's class for `message`, in the ranges of the wire."""
    parts = {}
    hints = get_type_hints(getattr(model, message.name))
    for field in message.fields:
        name = model_name(field.name)
        if name in hints:
            parts[name] = field_values(field)
    return st.builds(getattr(model, message.name), **parts)


def field_values(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    if is_map(field):
        return st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=2)
    if field.message_type is not None and field.message_type.name in WRAPPERS:
        return st.none() | field_values(field.message_type.fields[0])
    if field.message_type is not None:
        one = values(field.message_type)
    elif field.enum_type is not None:
        one = st.sampled_from(getattr(model, field.enum_type.name))
    else:
        one = RANGES[field.type]
    if field.is_repeated:
        return st.lists(one, max_size=2).map(tuple)
    return st.none() | one if field.message_type is not None else one


def encode(value: Any) -> Any:
    """The test's own way back, so that a fault cannot be in both directions at once."""
    message = getattr(pb, type(value).__name__)()
    for field in message.DESCRIPTOR.fields:
        name = model_name(field.name)
        item = getattr(value, name, None)
        if item is None:
            continue
        target = getattr(message, field.name)
        if isinstance(item, Mapping):
            target.update(item)
        elif isinstance(item, tuple):
            target.extend([encode(i) if dataclasses.is_dataclass(i) else i for i in item])
        elif dataclasses.is_dataclass(item):
            target.CopyFrom(encode(item))
            target.SetInParent()
        elif field.message_type is not None:
            target.SetInParent()
            setattr(target, field.message_type.fields[0].name, item)
        else:
            setattr(message, field.name, item.encode() if field.type == FieldDescriptor.TYPE_BYTES else item)
    return message


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)
def test_round_trip(cls: type) -> None:
    kind = getattr(pb, cls.__name__)

    @settings(derandomize=True, max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(values(MESSAGES[cls.__name__]))
    def round_trip(value: object) -> None:
        on_the_wire = encode(value).SerializeToString()
        assert decode(kind.FromString(on_the_wire), cls) == value

    round_trip()


def test_decoded_values_are_the_models_own_types() -> None:
    config = pb.ContainerConfig(args=["a"], labels={"k": "v"}, mounts=[pb.Mount(uidMappings=[pb.IDMapping(length=1)])])
    config.stop_signal = pb.SIGNAL_SIGTERM
    value = decode(config, model.ContainerConfig)
    assert type(value.args) is tuple
    assert type(value.labels) is dict
    assert value.stop_signal is model.Signal.SIGNAL_SIGTERM
    assert value.mounts[0].uid_mappings == (model.IDMapping(length=1),)
    config.labels["k"] = "changed"
    assert value.labels == {"k": "v"}, "a value must not follow the message it came from"


def test_absent_zero_and_empty_are_three_things() -> None:
    context = pb.LinuxContainerSecurityContext()
    assert decode(context, model.LinuxContainerSecurityContext).run_as_user is None
    context.run_as_user.SetInParent()
    context.seccomp.SetInParent()
    value = decode(context, model.LinuxContainerSecurityContext)
    assert value.run_as_user == 0
    assert value.seccomp == model.SecurityProfile()
    listed = pb.PodSandboxFilter(state=pb.PodSandboxStateValue())
    assert decode(listed, model.PodSandboxFilter).state is model.PodSandboxState.SANDBOX_READY


@pytest.mark.parametrize("cls", [c for c in vars(model).values() if isinstance(c, type) and issubclass(c, enum.Enum)])
def test_enums_are_the_wires(cls: type[enum.IntEnum]) -> None:
    wire = {**pb.SecurityProfile.DESCRIPTOR.enum_types_by_name, **pb.DESCRIPTOR.enum_types_by_name}
    assert {m.name: m.value for m in cls} == {v.name: v.number for v in wire[cls.__name__].values}


# --- Refusals -------------------------------------------------------------------------------------------------------


def test_unknown_enum_values_are_refused_by_path() -> None:
    sandbox = pb.PodSandboxConfig(port_mappings=[pb.PortMapping(), pb.PortMapping()])
    sandbox.port_mappings[1].protocol = 9  # type: ignore[assignment]
    found = refusal(lambda: decode(sandbox, model.PodSandboxConfig, at="config"))
    assert found == ("config.port_mappings[1].protocol", "9 is no value of Protocol; known are 0 to 2")

    sandbox = pb.PodSandboxConfig()
    sandbox.linux.security_context.namespace_options.userns_options.mode = -1  # type: ignore[assignment]
    field, _ = refusal(lambda: decode(sandbox, model.PodSandboxConfig))
    assert field == "linux.security_context.namespace_options.userns_options.mode"

    listed = pb.ContainerFilter(state=pb.ContainerStateValue(state=7))  # type: ignore[arg-type]
    field, _ = refusal(lambda: decode(listed, model.ContainerFilter, at="filter"))
    assert field == "filter.state.state"


def enum_fields() -> list[tuple[str, str]]:
    return [(cls.__name__, f.name) for cls in CLASSES for f in MESSAGES[cls.__name__].fields if f.enum_type is not None]


@pytest.mark.parametrize(("message", "name"), enum_fields())
@pytest.mark.parametrize("number", [-1, 99])
def test_no_enum_field_lets_an_unknown_value_in(message: str, name: str, number: int) -> None:
    value = getattr(pb, message)(**{name: number})
    assert refusal(lambda: decode(value, getattr(model, message)))[0] == name


def test_environment_that_is_not_text_is_refused_without_showing_it() -> None:
    envs = [pb.KeyValue(key="A", value="ä€😀".encode()), pb.KeyValue(key="B", value=b"secret\xff")]
    field, text = refusal(lambda: decode(pb.ContainerConfig(envs=envs), model.ContainerConfig, at="config"))
    assert field == "config.envs[1].value"
    assert "byte 6" in text
    assert "secret" not in text
    assert decode(pb.ContainerConfig(envs=envs[:1]), model.ContainerConfig).envs[0].value == "ä€😀"


def test_windows_is_refused_even_when_it_is_empty() -> None:
    create = pb.CreateContainerRequest()
    create.config.windows.SetInParent()
    field, text = refusal(lambda: decode_field(create, "config", model.ContainerConfig))
    assert field == "config.windows"
    assert "Windows" in text
    run = pb.RunPodSandboxRequest()
    run.config.windows.security_context.host_process = True
    assert refusal(lambda: decode_field(run, "config", model.PodSandboxConfig))[0] == "config.windows"


def test_windows_in_the_request_itself() -> None:
    update = pb.UpdateContainerResourcesRequest(container_id="c", annotations={"windows": "1"})
    refuse_windows(update)
    update.windows.SetInParent()
    assert refusal(lambda: refuse_windows(update))[0] == "windows"


# --- The edges of the interface -------------------------------------------------------------------------------------


def test_an_absent_field_is_none_and_an_empty_one_is_empty() -> None:
    request = pb.CreateContainerRequest()
    assert decode_field(request, "sandbox_config", model.PodSandboxConfig) is None
    request.sandbox_config.SetInParent()
    assert decode_field(request, "sandbox_config", model.PodSandboxConfig) == model.PodSandboxConfig()


def test_fields_of_a_later_version_are_skipped() -> None:
    of_later = pb.ImageSpec(image="i").SerializeToString() + b"\xa2\x06\x03new"  # field 100
    assert decode(pb.ImageSpec.FromString(of_later), model.ImageSpec) == model.ImageSpec(image="i")


def test_a_message_of_another_kind_is_a_fault_of_the_program() -> None:
    with pytest.raises(TypeError, match="ImageSpec is not a Mount"):
        decode(pb.ImageSpec(), model.Mount)


@pytest.mark.parametrize(
    ("hints", "complaint"),
    [
        ({}, "no place for the message's field name"),
        ({"name": str, "more": str}, "more is no field"),
        ({"name": int}, "cannot become"),
        ({"name": tuple[str, ...]}, "cannot become"),
    ],
)
def test_a_class_that_does_not_fit_its_message_cannot_be_used(hints: dict[str, Any], complaint: str) -> None:
    misfit = dataclasses.make_dataclass("CDIDevice", [(name, hint, None) for name, hint in hints.items()])
    with pytest.raises(TypeError, match=complaint):
        decode(pb.CDIDevice(name="v/c=n"), misfit)


@pytest.mark.parametrize(
    ("hints", "complaint"),
    [
        ({"image": model.ImageSpec}, "cannot be None"),
        ({"image": model.Mount | None}, "cannot become"),
    ],
)
def test_a_message_field_must_be_optional_and_of_its_class(hints: dict[str, Any], complaint: str) -> None:
    misfit = dataclasses.make_dataclass("ImageFilter", [(name, hint, None) for name, hint in hints.items()])
    with pytest.raises(TypeError, match=complaint):
        decode(pb.ImageFilter(), misfit)


def test_plans_are_compiled_once() -> None:
    decode(pb.Mount(), model.Mount)
    before = decoding._plan.cache_info().misses
    decode(pb.Mount(container_path="/x"), model.Mount)
    assert decoding._plan.cache_info().misses == before
