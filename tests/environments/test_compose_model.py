"""Compose files: what is refused of them, and what becomes of the rest."""

from pathlib import Path
from typing import Any

import pytest

from proctor.environments.compose_model import (
    ISOLATED_BRIDGE,
    NO_DNS,
    compose_problems,
    main_networks,
    main_variables,
    main_volumes,
    other_services,
)

SERVICE = {"image": "a"}


@pytest.mark.parametrize(
    ("service", "named"),
    [
        ({"privileged": True}, "privileged"),
        ({"cap_add": ["SYS_ADMIN"]}, "cap_add"),
        ({"devices": ["/dev/sda"]}, "devices"),
        ({"network_mode": "host"}, "network_mode host"),
        ({"network_mode": "container:other"}, "network_mode container:other"),
        ({"pid": "host"}, "pid host"),
        ({"volumes": ["/var/run/docker.sock:/var/run/docker.sock"]}, "/var/run/docker.sock"),
        ({"volumes": [{"type": "bind", "source": "/etc", "target": "/x"}]}, "/etc"),
        ({"volumes": ["../..:/x"]}, "../.."),
        ({"build": {"context": "https://example.com/x.git"}}, "https://example.com/x.git"),
        ({"build": ".."}, "a build from .."),
        ({"security_opt": ["seccomp=unconfined"]}, "security_opt"),
        ({"env_file": "/root/.env"}, "/root/.env"),
        ({"env_file": [{"path": "../secrets.env"}]}, "../secrets.env"),
        ({"env_file": "${HOME}/.env"}, "${HOME}/.env"),
        ({"extends": {"file": "/other.yaml", "service": "x"}}, "extends"),
        ({"provider": {"type": "a-program"}}, "provider"),
        ({"use_api_socket": True}, "use_api_socket"),
        ({"post_start": [{"command": "true", "privileged": True}]}, "post_start"),
        ({"a_key_of_next_year": 1}, "a_key_of_next_year"),
        ({"build": {"context": ".", "additional_contexts": {"home": "/root"}}}, "additional_contexts"),
        ({"build": {"context": ".", "ssh": ["default"]}}, "ssh"),
        ({"build": {"context": ".", "network": "host"}}, "network"),
        ({"build": {"context": ".", "dockerfile": "/root/Dockerfile"}}, "/root/Dockerfile"),
    ],
)
def test_what_leads_out_of_the_containers_is_refused(service: dict[str, Any], named: str, tmp_path: Path) -> None:
    (problem, *_) = compose_problems({"services": {"db": {**SERVICE, **service}}}, tmp_path)
    assert named in problem
    assert "db" in problem


@pytest.mark.parametrize("value", [3, "x", [], ["x"], [3], {}, {"x": 1}, {"x": [1]}, True, [{}], [[]]])
def test_whatever_a_key_is_the_file_is_read_or_refused(value: Any, tmp_path: Path) -> None:
    parts = ("volumes", "networks", "env_file", "build", "network_mode", "environment", "depends_on", "image")
    models: list[Any] = [{"services": {"db": {**SERVICE, part: value}}} for part in parts]
    models += [{"services": {"db": SERVICE}, part: value} for part in ("networks", "volumes", "x-more", "configs")]
    models += [{"services": value}, {"services": {"db": value}}]
    assert [isinstance(compose_problems(model, tmp_path), list) for model in models] == [True] * len(models)


def test_ordinary_services_are_not_refused(tmp_path: Path) -> None:
    model = {
        "services": {
            "main": {"depends_on": ["db"], "volumes": ["data:/data"]},
            "db": {
                **SERVICE,
                "build": {"context": ".", "args": {"A": "1"}, "target": "final"},
                "env_file": ["./db.env"],
                "volumes": ["./init.sql:/init.sql", "data:/data", "/anonymous"],
            },
        },
        "volumes": {"data": None},
    }
    assert compose_problems(model, tmp_path) == []


def test_networks_and_volumes_of_the_engine_are_refused(tmp_path: Path) -> None:
    model = {
        "services": {"db": SERVICE},
        "networks": {"n": {"external": True}},
        "volumes": {"v": {"driver_opts": {"o": "bind"}}},
    }
    assert len(compose_problems(model, tmp_path)) == 2
    assert compose_problems({}, tmp_path) == ["a compose file with services"]
    other_files = {"services": {"db": SERVICE}, "include": ["other.yaml"], "x-ours": 1}
    assert compose_problems(other_files, tmp_path) == ["include of compose"]


def test_services_are_labelled_limited_and_kept_from_the_world() -> None:
    model = {
        "services": {
            "main": {"image": "m", "networks": {"front": None}, "environment": {"A": "1", "B": None}},
            "db": {
                "image": "a",
                "ports": ["5432:5432"],
                "container_name": "db",
                "mem_limit": "64g",
                "depends_on": {"main": {}, "cache": {}},
                "labels": {"own": "1"},
                "volumes": [{"type": "bind", "source": "/task/init.sql", "target": "/init.sql"}],
                "build": {"context": "/task", "tags": ["ubuntu:24.04"]},
                "scale": 100,
            },
        },
        "networks": {"front": {"driver": "bridge"}},
        "volumes": {"data": {}},
    }
    made = other_services(model, {"proctor": "1"}, {"db": "sha256:1"}, is_open=False)
    (db,) = made["services"].values()
    assert (db["image"], db["dns"], db["volumes"][0]["read_only"]) == ("sha256:1", NO_DNS, True)
    assert "build" not in db
    assert "scale" not in db
    assert "dns" not in other_services(model, {}, {}, is_open=True)["services"]["db"]
    assert "ports" not in db
    assert "container_name" not in db
    assert db["depends_on"] == {"cache": {}}
    assert db["labels"] == {"own": "1", "proctor": "1"}
    assert db["mem_limit"] == 8192 << 20
    assert db["pids_limit"] == 4096
    assert db["security_opt"] == ["no-new-privileges"]
    assert all(network["internal"] and network["labels"] == {"proctor": "1"} for network in made["networks"].values())
    assert all(network["driver_opts"] == ISOLATED_BRIDGE for network in made["networks"].values())
    assert set(made["networks"]) == {"default", "front"}
    assert made["volumes"] == {"data": {"labels": {"proctor": "1"}}}
    assert main_networks(model) == ["front"]
    assert main_networks({"services": {}}) == ["default"]
    assert main_variables(model) == {"A": "1"}


def test_volumes_that_the_main_service_shares_have_the_project_s_names() -> None:
    volumes = [{"type": "volume", "source": "data", "target": "/data"}]
    (mount,) = main_volumes({"services": {"main": {"volumes": volumes}}}, "p")
    assert mount == {"Type": "volume", "Source": "p_data", "Target": "/data", "ReadOnly": False}
