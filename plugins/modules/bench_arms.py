#!/usr/bin/python
# Copyright: the labctl authors. Apache-2.0.
"""Make or remove the storage of arms: directories and file systems in files."""

from __future__ import annotations

DOCUMENTATION = r"""
module: bench_arms
short_description: Make or remove the storage of arms
description:
  - An arm of kind C(directory) is a directory. An arm of kind C(loop) is a file system in a file, mounted until it
    is removed or the host restarts. A second run attaches and mounts it again and keeps its data.
  - Refuses everything that it did not make. Kind C(loop) needs root.
options:
  arms:
    description: The arms.
    type: list
    elements: dict
    required: true
    suboptions:
      name: {description: Name of the arm., type: str, required: true}
      kind: {description: What it is., type: str, choices: [directory, loop], required: true}
      path: {description: Its directory or mount point., type: path, required: true}
      filesystem: {description: File system of a loop arm., type: str, choices: [xfs, ext4]}
      size_bytes: {description: Size of the image of a loop arm; space that a directory arm needs., type: int}
      image: {description: File that holds the file system of a loop arm., type: path}
  run_id:
    description: The run to which the arms belong.
    type: str
    required: true
  bases:
    description:
      - Directories below which every path and image must lie. Elsewhere only names that begin with C(labctl-<run_id>-)
        are taken, such as C(/dev/shm/labctl-r1-memory).
    type: list
    elements: path
    required: true
  owner:
    description: Id of the user to whom the directories belong. Default is the user who runs the module.
    type: int
  group:
    description: Id of the group of the directories.
    type: int
  state:
    description: Whether the arms shall exist.
    type: str
    choices: [present, absent]
    default: present
attributes:
  check_mode: {support: full}
  diff_mode: {support: full}
author: The labctl authors
"""

EXAMPLES = r"""
- name: Make a file system in a file
  labctl.lab.bench_arms:
    run_id: r1
    bases: [/var/tmp/labctl]
    arms:
      - name: xfs
        kind: loop
        path: /var/tmp/labctl/arms/r1/xfs
        filesystem: xfs
        size_bytes: 1073741824
        image: /var/tmp/labctl/arms/r1/xfs.img
  become: true
"""

RETURN = r"""
arms:
  description: What there is now, a dictionary an arm with name, path, device and direct_io (null for directories).
  type: list
  elements: dict
  returned: success
uid:
  description: Id of the user who ran the module.
  type: int
  returned: success
gid:
  description: Id of that user's group.
  type: int
  returned: success
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.labctl.lab.plugins.module_utils import ownership as own

DIRECTORY_MODE = 0o711
# What a file system and its journal may take beside the data before a host's disk is called full.
SPARE_BYTES = 64 * 1024 * 1024
# No discard: it would punch holes into the image. No lazy initialisation: it would write while something is measured.
MKFS = {
    "xfs": ["mkfs.xfs", "-q", "-f", "-K"],
    "ext4": ["mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"],
}


class Arms:
    """The arms of one host; every method refuses before it changes anything."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.run_id = module.params["run_id"]
        self.bases = module.params["bases"]
        self.owner = os.getuid() if module.params["owner"] is None else module.params["owner"]
        self.group = os.getgid() if module.params["group"] is None else module.params["group"]
        self.before: list = []
        self.after: list = []

    def run(self, argv: list) -> str:
        """Standard output of a command; its own words as refusal if it fails."""
        rc, out, err = self.module.run_command(argv)
        if rc != 0:
            raise own.Refused(f"{' '.join(argv)} failed: {(err or out).strip() or f'exit code {rc}'}")
        return out

    def check_place(self, path: str) -> None:
        """Refuse a path that is unsafe, or neither below a base nor named after the run."""
        own.check_path(path, self.owner)
        named = os.path.basename(path).startswith(f"labctl-{self.run_id}-")
        if not named and not any(own.is_below(path, base) for base in self.bases):
            raise own.Refused(f"{path} lies outside {', '.join(self.bases)} and is not named labctl-{self.run_id}-*")

    def check_space(self, path: str, wanted: int) -> None:
        """Refuse if the file system that will hold ``path`` has less than ``wanted`` bytes free for ordinary users."""
        parent = path
        while not os.path.exists(parent):
            parent = os.path.dirname(parent)
        found = os.statvfs(parent)
        free = found.f_bavail * found.f_frsize
        if free < wanted + SPARE_BYTES:
            raise own.Refused(
                f"{parent} has {free / 2**20:.0f} MiB free, {(wanted + SPARE_BYTES) / 2**20:.0f} MiB are needed"
            )

    # -- directories -------------------------------------------------------------------------------------------------

    def directory_present(self, arm: dict) -> dict:
        """Make the directory of an arm."""
        path = arm["path"]
        self.check_place(path)
        if path in own.mounts():
            raise own.Refused(f"{path} is a mount point that labctl did not make")
        marker = own.check_owned(path, "arm", self.run_id, self.owner)
        self.after.append(f"{arm['name']}: directory {path}")
        if marker is not None:
            self.before.append(self.after[-1])
        else:
            if arm["size_bytes"]:
                self.check_space(path, arm["size_bytes"])
            if not self.module.check_mode:
                own.make_directory(path, "arm", self.run_id, DIRECTORY_MODE, arm=arm["name"])
        return {"name": arm["name"], "path": path, "device": None, "direct_io": None}

    def directory_absent(self, arm: dict) -> None:
        """Remove the directory of an arm, if it carries our marker."""
        path = arm["path"]
        own.check_path(path, self.owner)
        marker = own.check_owned(path, "arm", self.run_id, self.owner) if os.path.isdir(path) else None
        if marker is not None:
            self.before.append(f"{arm['name']}: directory {path}")
            if not self.module.check_mode:
                own.remove_directory(path, marker)

    # -- file systems in files ---------------------------------------------------------------------------------------

    def devices(self, image: str) -> list:
        """Loop devices that hold an image, compared by device and inode and not by name."""
        if not os.path.exists(image):
            return []
        out = self.run(["losetup", "--associated", image, "--noheadings", "--output", "NAME"])
        return out.split()

    def check_image(self, arm: dict) -> dict | None:
        """The marker of an image that is ours and as asked; None where there is no image."""
        image = arm["image"]
        marker = own.read_marker_file(image + own.MARKER)
        if marker is None:
            if os.path.lexists(image):
                raise own.Refused(f"image {image} exists and labctl did not make it")
            return None
        if marker.get("run_id") != self.run_id:
            raise own.Refused(f"image {image} belongs to run {marker.get('run_id')}, not to {self.run_id}")
        for key in ("size_bytes", "filesystem"):
            if arm[key] is not None and marker.get(key) != arm[key]:
                raise own.Refused(f"image {image} has {key} {marker.get(key)}, asked for is {arm[key]}")
        ready = marker.get("state") == "ready"
        if ready and (not os.path.isfile(image) or os.path.getsize(image) != marker["size_bytes"]):
            raise own.Refused(f"image {image} is missing or is not {marker['size_bytes']} bytes any more")
        return marker

    def mounted_device(self, path: str, image: str) -> str | None:
        """The loop device of the image if that is what is mounted; None if nothing is."""
        source = own.mounts().get(path)
        if source is not None and source not in self.devices(image):
            raise own.Refused(f"{path} is a mount point of {source}, which labctl did not make")
        return source

    def loop_present(self, arm: dict) -> dict:
        """Make, attach and mount the file system of an arm, as far as that is not done."""
        path, image = arm["path"], arm["image"]
        self.check_place(path)
        self.check_place(image)
        marker = self.check_image(arm)
        device = self.mounted_device(path, image)
        own.check_owned(path, "arm", self.run_id, self.owner)
        self.after.append(f"{arm['name']}: {arm['filesystem']} of {arm['size_bytes']} bytes in {image} on {path}")
        if device is not None:
            self.before.append(self.after[-1])
        elif marker is not None:
            self.before.append(f"{arm['name']}: {image}, not mounted")
        if marker is None or marker.get("state") != "ready":
            self.check_space(image, arm["size_bytes"] - (os.path.getsize(image) if os.path.isfile(image) else 0))
        if device is None and not self.module.check_mode:
            device = self.mount(arm, fresh=marker is None or marker.get("state") != "ready")
        return {"name": arm["name"], "path": path, "device": device, "direct_io": direct_io(device)}

    def mount(self, arm: dict, *, fresh: bool) -> str:
        """Attach the image and mount it; with ``fresh`` make both image and file system first."""
        path, image, kind = arm["path"], arm["image"], arm["filesystem"]
        about = {"arm": arm["name"], "size_bytes": arm["size_bytes"], "filesystem": kind}
        if own.read_marker(path) is None:
            own.make_directory(path, "arm", self.run_id, DIRECTORY_MODE, arm=arm["name"])
            os.chown(path, self.owner, self.group)
        if fresh:
            own.write_marker_file(image + own.MARKER, "image", self.run_id, state="making", **about)
            handle = os.open(image, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                os.ftruncate(handle, arm["size_bytes"])
                os.posix_fallocate(handle, 0, arm["size_bytes"])
            finally:
                os.close(handle)
        devices = self.devices(image)
        device = devices[0] if devices else self.run(["losetup", "--find", "--show", image]).strip()
        # Without direct I/O the image is cached a second time. Not every file system can do it: what it came to is
        # returned and shows in the fingerprint.
        self.module.run_command(["losetup", "--direct-io=on", device])
        if fresh:
            self.run([*MKFS[kind], device])
            own.write_marker_file(image + own.MARKER, "image", self.run_id, state="ready", **about)
        self.run(["mount", "-t", kind, "-o", "nosuid,nodev", device, path])
        if own.read_marker(path) is None:
            own.write_marker(path, "arm", self.run_id, made=True, made_parents=[], arm=arm["name"])
            os.chmod(path, DIRECTORY_MODE)
            os.chown(path, self.owner, self.group)
        return device

    def loop_absent(self, arm: dict) -> None:
        """Unmount, detach and remove the file system of an arm, as far as it is there and ours."""
        path, image = arm["path"], arm["image"]
        own.check_path(path, self.owner)
        own.check_path(image, self.owner)
        marker = self.check_image({**arm, "size_bytes": None, "filesystem": None}) if image_known(image) else None
        mounted = self.mounted_device(path, image)
        if marker is None and mounted is None and own.read_marker(path) is None:
            return
        self.before.append(f"{arm['name']}: {image} on {path}")
        if self.module.check_mode:
            return
        if mounted is not None:
            self.run(["umount", path])
        # Asked for only now: a device that was detached while mounted frees itself with the umount.
        for device in self.devices(image) if marker is not None else []:
            self.run(["losetup", "--detach", device])
        for name in (image, image + own.MARKER):
            if os.path.lexists(name):
                os.unlink(name)
        if os.path.isdir(path):
            below = own.check_owned(path, "arm", self.run_id, self.owner)
            if below is not None:
                own.remove_directory(path, below)


def image_known(image: str) -> bool:
    """Whether an image or its marker is there."""
    return os.path.lexists(image) or os.path.lexists(image + own.MARKER)


def direct_io(device: str | None) -> bool | None:
    """Whether a loop device reads and writes its image past the page cache."""
    if device is None:
        return None
    try:
        with open(f"/sys/block/{os.path.basename(device)}/loop/dio", encoding="ascii") as handle:
            return handle.read().strip() == "1"
    except OSError:
        return None


def main() -> None:
    """Entry point of the module."""
    arm_spec = {
        "name": {"type": "str", "required": True},
        "kind": {"type": "str", "choices": ["directory", "loop"], "required": True},
        "path": {"type": "path", "required": True},
        "filesystem": {"type": "str", "choices": ["xfs", "ext4"]},
        "size_bytes": {"type": "int"},
        "image": {"type": "path"},
    }
    module = AnsibleModule(
        argument_spec={
            "arms": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": arm_spec,
                "required_if": [("kind", "loop", ("filesystem", "size_bytes", "image"))],
            },
            "run_id": {"type": "str", "required": True},
            "bases": {"type": "list", "elements": "path", "required": True},
            "owner": {"type": "int"},
            "group": {"type": "int"},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        supports_check_mode=True,
    )
    work = Arms(module)
    state, done = module.params["state"], []
    order = module.params["arms"] if state == "present" else reversed(module.params["arms"])
    for arm in order:
        try:
            own.check_run_id(work.run_id)
            result = getattr(work, f"{arm['kind']}_{state}")(arm)
        except own.Refused as refused:
            module.fail_json(msg=f"Arm {arm['name']}: refused: {refused}.", arm=arm["name"])
        except OSError as error:
            module.fail_json(msg=f"Arm {arm['name']}: {error}.", arm=arm["name"])
        if result is not None:
            done.append(result)
    module.exit_json(
        changed=work.before != work.after,
        arms=done,
        uid=os.getuid(),
        gid=os.getgid(),
        diff={
            "before": "".join(f"{line}\n" for line in work.before),
            "after": "".join(f"{line}\n" for line in work.after),
        },
    )


if __name__ == "__main__":
    main()
