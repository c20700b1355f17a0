"""Where control groups can be created.

They lie below the group of the service itself, so that limits set for the service hold for its tasks too. In version 2
a group with processes cannot delegate controllers; then they lie beside it, below its parent.
"""

from __future__ import annotations

import os

CONTROLLERS: tuple[str, ...] = ("cpu", "memory")
_FOLDER = "gpusquad"


class CgroupBase:
    """A folder for our groups, and the controllers that they will have."""

    __slots__ = ("base", "controllers", "version")

    def __init__(self, base: str, version: int, controllers: tuple[str, ...]) -> None:
        self.base = base
        self.version = version
        self.controllers = controllers


def find_places(mounts: str = "/proc/self/mountinfo", own: str = "/proc/self/cgroup") -> list[CgroupBase]:
    """One for each hierarchy that has a controller we use."""
    groups = _own_groups(own)
    places: list[CgroupBase] = []
    for version, mount, root, options in _mounts(mounts):
        if version == 1:
            names = tuple(name for name in CONTROLLERS if name in options)
            found = _place_v1(_inside(mount, root, groups.get(names[0], "/")), names) if names else None
        else:
            found = _place_v2(_inside(mount, root, groups.get("", "/")), mount)
        # A hierarchy can be mounted twice.
        if found is not None and not any(set(found.controllers) & set(place.controllers) for place in places):
            places.append(found)
    return places


def pass_on(folder: str, controllers: tuple[str, ...]) -> bool:
    """Version 2: enable these controllers for the groups below."""
    passed = read(folder, "cgroup.subtree_control").split()
    try:
        for name in controllers:
            if name not in passed:
                write(folder, "cgroup.subtree_control", f"+{name}")
    except OSError:
        return False
    return os.access(folder, os.W_OK)


def read(folder: str, name: str) -> str:
    """Empty if it cannot be read."""
    try:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def write(folder: str, name: str, text: str) -> None:
    """In one write, as the kernel requires, and never creating a file."""
    handle = os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)


def _place_v1(own: str, controllers: tuple[str, ...]) -> CgroupBase:
    return CgroupBase(os.path.join(own, _FOLDER), 1, controllers)


def _place_v2(own: str, mount: str) -> CgroupBase | None:
    for folder in (own, os.path.dirname(own)):
        if len(folder) < len(mount):
            break
        offered = read(folder, "cgroup.controllers").split()
        names = tuple(name for name in CONTROLLERS if name in offered)
        if names and pass_on(folder, names):
            return CgroupBase(os.path.join(folder, _FOLDER), 2, names)
    return None


def _mounts(path: str) -> list[tuple[int, str, str, list[str]]]:
    """Version, mount point, root of the mount inside the hierarchy, options: for each mounted hierarchy."""
    found = []
    for line in read(*os.path.split(path)).splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.partition(" ")
        if kind in ("cgroup", "cgroup2"):
            root, mount = (field.encode().decode("unicode_escape") for field in left.split(" ")[3:5])
            found.append((1 if kind == "cgroup" else 2, mount, root, options.replace(" ", ",").split(",")))
    return found


def _own_groups(path: str) -> dict[str, str]:
    """The group of this process, by controller; "" is version 2."""
    groups: dict[str, str] = {}
    for line in read(*os.path.split(path)).splitlines():
        _, names, group = line.split(":", 2)
        groups.update(dict.fromkeys(names.split(","), group))
    return groups


def _inside(mount: str, root: str, group: str) -> str:
    """The folder of a group. In a container the mount may show only a part of the hierarchy."""
    below = os.path.relpath(group, root)
    folder = os.path.normpath(os.path.join(mount, below))
    return folder if not below.startswith("..") and os.path.isdir(folder) else mount
