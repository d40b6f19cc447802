"""Builds a folder of Kustomize to the objects that it makes, as far as ours use it.

Knows resources, components, JSON patches, images and the namespace; any other field, a file that is not there, and a
patch without an object are errors. Does not know what the objects mean.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

Resource = dict[str, Any]
_FIELDS = {"apiVersion", "kind", "namespace", "resources", "components", "patches", "images"}
_KINDS = {"Kustomization": "kustomize.config.k8s.io/v1beta1", "Component": "kustomize.config.k8s.io/v1alpha1"}
_WITHOUT_NAMESPACE = {"Namespace"}


class Wrong(Exception):
    """What Kustomize would refuse; the message names the file."""


@dataclass
class Built:
    """What a folder makes.

    Attributes:
        objects: All of them, patched.
        patched: Names of those that a patch changed.
    """

    objects: list[Resource] = field(default_factory=list)
    patched: list[str] = field(default_factory=list)


def build(folder: Path) -> Built:
    """All that a kustomization makes.

    Raises:
        Wrong: Kustomize would not take it.
    """
    built = Built()
    _add(folder, built)
    names = [(each["kind"], each["metadata"]["name"]) for each in built.objects]
    if len(set(names)) < len(names):
        raise Wrong(f"{folder}: an object is there twice, of {names}")
    return built


def _add(folder: Path, built: Built) -> None:
    file = folder / "kustomization.yaml"
    said = _read(file)
    for name in (*said.get("resources", ()), *said.get("components", ())):
        below = (folder / name).resolve()
        if below.is_dir():
            _add(below, built)
        else:
            built.objects += yaml.safe_load_all(below.read_text("utf-8"))
    for patch in said.get("patches", ()):
        _patch(file, built, patch)
    for image in said.get("images", ()):
        _set_image(file, built.objects, image)
    for each in built.objects:
        if "namespace" in said and each["kind"] not in _WITHOUT_NAMESPACE:
            each["metadata"]["namespace"] = said["namespace"]


def _read(file: Path) -> Resource:
    said: Resource = yaml.safe_load(file.read_text("utf-8"))
    if unknown := said.keys() - _FIELDS:
        raise Wrong(f"{file}: {unknown} is not known here")
    if _KINDS.get(said["kind"]) != said["apiVersion"]:
        raise Wrong(f"{file}: {said['kind']} of {said['apiVersion']}")
    return said


def _patch(file: Path, built: Built, patch: Resource) -> None:
    target = patch["target"]
    found = [o for o in built.objects if (o["kind"], o["metadata"]["name"]) == (target["kind"], target["name"])]
    if not found:
        raise Wrong(f"{file}: there is no {target} to patch")
    for operation in yaml.safe_load(patch["patch"]):
        _apply(file, found[0], operation)
    built.patched.append(target["name"])


def _apply(file: Path, target: Resource, operation: Resource) -> None:
    """One operation of RFC 6902, of which `add`, `replace` and `remove` are known."""
    *way, last = operation["path"].removeprefix("/").split("/")
    place = _walk(file, target, way)
    key: Any = last
    if isinstance(place, list):
        key = len(place) if last == "-" else int(last)
    is_there = key < len(place) if isinstance(place, list) else key in place
    match operation["op"]:
        case "add" if isinstance(place, list):
            place.insert(key, operation["value"])
        case "add":
            place[key] = operation["value"]
        case "replace" if is_there:
            place[key] = operation["value"]
        case "remove" if is_there:
            del place[key]
        case _:
            raise Wrong(f"{file}: {operation} finds nothing")


def _walk(file: Path, target: Any, way: Sequence[str]) -> Any:
    for step in way:
        try:
            target = target[int(step) if isinstance(target, list) else step]
        except (LookupError, ValueError) as error:
            raise Wrong(f"{file}: there is no /{'/'.join(way)}") from error
    return target


def _set_image(file: Path, objects: Sequence[Resource], image: Resource) -> None:
    users = [c for each in objects for c in containers(each) if c["image"] == image["name"]]
    if not users:
        raise Wrong(f"{file}: nothing runs {image['name']}")
    for user in users:
        user["image"] = f"{image['newName']}:{image['newTag']}"


def containers(resource: Resource) -> list[Resource]:
    """The containers of a Deployment's pods; none of other kinds."""
    return list(resource["spec"]["template"]["spec"]["containers"]) if resource["kind"] == "Deployment" else []
