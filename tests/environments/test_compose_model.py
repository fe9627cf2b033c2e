"""Compose files: what is refused of them, and what becomes of the rest."""

from pathlib import Path
from typing import Any

import pytest

from proctor.environments.compose_model import (
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
    ],
)
def test_what_leads_out_of_the_containers_is_refused(service: dict[str, Any], named: str, tmp_path: Path) -> None:
    (problem, *_) = compose_problems({"services": {"db": {**SERVICE, **service}}}, tmp_path)
    assert named in problem
    assert "db" in problem


def test_ordinary_services_are_not_refused(tmp_path: Path) -> None:
    model = {
        "services": {
            "main": {"depends_on": ["db"], "volumes": ["data:/data"]},
            "db": {
                **SERVICE,
                "build": {"context": "."},
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
            },
        },
        "networks": {"front": {"driver": "bridge"}},
        "volumes": {"data": {}},
    }
    made = other_services(model, {"proctor": "1"}, {})
    (db,) = made["services"].values()
    assert "ports" not in db
    assert "container_name" not in db
    assert db["depends_on"] == {"cache": {}}
    assert db["labels"] == {"own": "1", "proctor": "1"}
    assert db["mem_limit"] == 8192 << 20
    assert db["pids_limit"] == 4096
    assert db["security_opt"] == ["no-new-privileges"]
    assert all(network["internal"] and network["labels"] == {"proctor": "1"} for network in made["networks"].values())
    assert set(made["networks"]) == {"default", "front"}
    assert made["volumes"] == {"data": {"labels": {"proctor": "1"}}}
    assert main_networks(model) == ["front"]
    assert main_networks({"services": {}}) == ["default"]
    assert main_variables(model) == {"A": "1"}


def test_volumes_that_the_main_service_shares_have_the_project_s_names() -> None:
    volumes = [{"type": "volume", "source": "data", "target": "/data"}]
    (mount,) = main_volumes({"services": {"main": {"volumes": volumes}}}, "p")
    assert mount == {"Type": "volume", "Source": "p_data", "Target": "/data", "ReadOnly": False}
