"""Tests that device plugin messages have the bytes that the kubelet reads and writes."""

from __future__ import annotations

from gpusquad.agent.kubernetes import messages


def field(number: int, content: bytes) -> bytes:
    """A length-delimited field: a string or a message."""
    return bytes([number << 3 | 2, len(content)]) + content


def test_registration_request_is_encoded():
    request = messages.RegisterRequest(version="v1beta1", endpoint="a.sock", resource_name="nvidia.com/gpu")
    request.options.get_preferred_allocation_available = True
    expected = field(1, b"v1beta1") + field(2, b"a.sock") + field(3, b"nvidia.com/gpu") + field(4, b"\x10\x01")
    assert request.SerializeToString() == expected


def test_device_list_is_encoded():
    answer = messages.ListAndWatchResponse()
    answer.devices.add(ID="SIM-0::0", health="Healthy")
    assert answer.SerializeToString() == field(1, field(1, b"SIM-0::0") + field(2, b"Healthy"))


def test_preferred_allocation_is_decoded_and_encoded():
    inside = field(1, b"a") + field(1, b"b") + field(2, b"a") + b"\x18\x02"
    [entry] = messages.PreferredAllocationRequest.FromString(field(1, inside)).container_requests
    assert (list(entry.available_deviceIDs), list(entry.must_include_deviceIDs)) == (["a", "b"], ["a"])
    assert entry.allocation_size == 2
    answer = messages.PreferredAllocationResponse()
    answer.container_responses.add(deviceIDs=["a", "b"])
    assert answer.SerializeToString() == field(1, field(1, b"a") + field(1, b"b"))


def test_allocation_is_decoded_and_encoded():
    [entry] = messages.AllocateRequest.FromString(field(1, field(1, b"a"))).container_requests
    assert list(entry.devices_ids) == ["a"]
    answer = messages.AllocateResponse()
    container = answer.container_responses.add(envs={"K": "v"})
    container.mounts.add(container_path="/in", host_path="/out", read_only=True)
    container.devices.add(container_path="/dev/a", host_path="/dev/b", permissions="rw")
    env = field(1, field(1, b"K") + field(2, b"v"))
    mount = field(2, field(1, b"/in") + field(2, b"/out") + b"\x18\x01")
    device = field(3, field(1, b"/dev/a") + field(2, b"/dev/b") + field(3, b"rw"))
    assert answer.SerializeToString() == field(1, env + mount + device)


def test_pod_resources_are_decoded_with_unknown_fields():
    devices = field(1, b"nvidia.com/gpu") + field(2, b"SIM-0::0") + field(3, field(1, b"\x08\x00"))
    container = field(1, b"main") + field(2, devices) + field(3, b"\x01\x02")
    pod = field(1, b"pod") + field(2, b"default") + field(3, container) + field(4, b"\x07")
    [found] = messages.ListPodResourcesResponse.FromString(field(1, pod)).pod_resources
    assert (found.name, found.namespace, found.containers[0].name) == ("pod", "default", "main")
    assert list(found.containers[0].devices[0].device_ids) == ["SIM-0::0"]
