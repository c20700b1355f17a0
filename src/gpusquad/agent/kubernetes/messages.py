"""Messages of two kubelet interfaces, device plugins (v1beta1) and pod resources (v1), built from tables of fields.

Only fields that the agent sends or reads are listed; others are skipped. Names and numbers are those of the wire
format.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_Field = tuple[str, int, str]
_Tables = Mapping[str, Sequence[_Field]]
_SCALARS = {
    "string": descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
    "bool": descriptor_pb2.FieldDescriptorProto.TYPE_BOOL,
    "int32": descriptor_pb2.FieldDescriptorProto.TYPE_INT32,
}
_MANY, _BY_NAME = "*", "names"

# name: (field, number, type); a star before the type: repeated; "names": a map from string to string.
_PLUGIN: _Tables = {
    "Empty": (),
    "DevicePluginOptions": (("pre_start_required", 1, "bool"), ("get_preferred_allocation_available", 2, "bool")),
    "RegisterRequest": (
        ("version", 1, "string"), ("endpoint", 2, "string"), ("resource_name", 3, "string"),
        ("options", 4, "DevicePluginOptions"),
    ),
    "Device": (("ID", 1, "string"), ("health", 2, "string")),
    "ListAndWatchResponse": (("devices", 1, "*Device"),),
    "ContainerPreferredAllocationRequest": (
        ("available_deviceIDs", 1, "*string"), ("must_include_deviceIDs", 2, "*string"),
        ("allocation_size", 3, "int32"),
    ),
    "PreferredAllocationRequest": (("container_requests", 1, "*ContainerPreferredAllocationRequest"),),
    "ContainerPreferredAllocationResponse": (("deviceIDs", 1, "*string"),),
    "PreferredAllocationResponse": (("container_responses", 1, "*ContainerPreferredAllocationResponse"),),
    "ContainerAllocateRequest": (("devices_ids", 1, "*string"),),
    "AllocateRequest": (("container_requests", 1, "*ContainerAllocateRequest"),),
    "Mount": (("container_path", 1, "string"), ("host_path", 2, "string"), ("read_only", 3, "bool")),
    "DeviceSpec": (("container_path", 1, "string"), ("host_path", 2, "string"), ("permissions", 3, "string")),
    "ContainerAllocateResponse": (
        ("envs", 1, "names"), ("mounts", 2, "*Mount"), ("devices", 3, "*DeviceSpec"), ("annotations", 4, "names"),
    ),
    "AllocateResponse": (("container_responses", 1, "*ContainerAllocateResponse"),),
    "PreStartContainerRequest": (("devices_ids", 1, "*string"),),
    "PreStartContainerResponse": (),
}  # fmt: skip
_RESOURCES: _Tables = {
    "ListPodResourcesRequest": (),
    "ContainerDevices": (("resource_name", 1, "string"), ("device_ids", 2, "*string")),
    "ContainerResources": (("name", 1, "string"), ("devices", 2, "*ContainerDevices")),
    "PodResources": (("name", 1, "string"), ("namespace", 2, "string"), ("containers", 3, "*ContainerResources")),
    "ListPodResourcesResponse": (("pod_resources", 1, "*PodResources"),),
}


def _classes(package: str, tables: _Tables) -> dict[str, Any]:
    """In a separate pool, because other packages of the process may register the same names."""
    file = descriptor_pb2.FileDescriptorProto(name=f"gpusquad/{package}.proto", package=package, syntax="proto3")
    for name, fields in tables.items():
        message = file.message_type.add(name=name)
        for field in fields:
            _add_field(message, package, *field)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)  # pyright: ignore[reportAttributeAccessIssue]
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in tables}


def _add_field(message: descriptor_pb2.DescriptorProto, package: str, name: str, number: int, kind: str) -> None:
    field = message.field.add(name=name, number=number, label=descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL)
    if kind == _BY_NAME:
        entry = message.nested_type.add(name=f"{name.title()}Entry")
        entry.options.map_entry = True
        _add_field(entry, package, "key", 1, "string")
        _add_field(entry, package, "value", 2, "string")
        kind = f"{_MANY}{message.name}.{entry.name}"
    if kind.startswith(_MANY):
        field.label = descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED
        kind = kind[len(_MANY) :]
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type = descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE
        field.type_name = f".{package}.{kind}"


_plugin = _classes("v1beta1", _PLUGIN)
Empty = _plugin["Empty"]
DevicePluginOptions = _plugin["DevicePluginOptions"]
RegisterRequest = _plugin["RegisterRequest"]
Device = _plugin["Device"]
ListAndWatchResponse = _plugin["ListAndWatchResponse"]
PreferredAllocationRequest = _plugin["PreferredAllocationRequest"]
PreferredAllocationResponse = _plugin["PreferredAllocationResponse"]
AllocateRequest = _plugin["AllocateRequest"]
AllocateResponse = _plugin["AllocateResponse"]
PreStartContainerRequest = _plugin["PreStartContainerRequest"]
PreStartContainerResponse = _plugin["PreStartContainerResponse"]

_resources = _classes("v1", _RESOURCES)
ListPodResourcesRequest = _resources["ListPodResourcesRequest"]
ListPodResourcesResponse = _resources["ListPodResourcesResponse"]
