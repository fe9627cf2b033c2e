import json
from pathlib import Path

import msgspec
import pytest

from proctor.core.environment import EnvironmentSpec, Limits
from proctor.core.errors import InfrastructureError
from proctor.core.request import RunRequest
from proctor.environments import provider
from proctor.environments.docker import DockerProvider
from proctor.environments.gpus import count_host_gpus, device_requests, engine_gpus
from proctor.runner.preflight import check_gpus


def test_the_engine_is_asked_as_docker_run_asks_it() -> None:
    spec = EnvironmentSpec(image="any", limits=Limits(gpus=2))
    config = DockerProvider()._config(spec, "any", {}, "none")
    assert config["HostConfig"]["DeviceRequests"] == [{"Driver": "", "Count": 2, "Capabilities": [["gpu"]]}]
    plain = DockerProvider()._config(EnvironmentSpec(image="any"), "any", {}, "none")
    assert "DeviceRequests" not in plain["HostConfig"]
    assert device_requests(0) == []


@pytest.mark.parametrize(
    ("info", "host", "gpus"),
    [
        ({"Runtimes": {"runc": {}}}, 4, 0),
        ({"Runtimes": {"runc": {}, "nvidia": {}}}, 4, 4),
        ({"Runtimes": {"nvidia": {}}}, 0, 1),
        ({"DiscoveredDevices": [{"ID": f"nvidia.com/gpu={one}"} for one in ("0", "1", "all")]}, 0, 2),
        ({}, 0, 0),
    ],
)
def test_the_gpus_of_an_engine_are_read_from_its_info(info: dict[str, object], host: int, gpus: int) -> None:
    assert engine_gpus(info, host_gpus=host) == gpus


def test_the_drivers_list_is_counted(tmp_path: Path) -> None:
    assert count_host_gpus(tmp_path / "none") == 0
    for name in ("0000:01:00.0", "0000:02:00.0"):
        (tmp_path / name).mkdir()
    assert count_host_gpus(tmp_path) == 2


def test_requested_resources_add_to_those_of_the_task() -> None:
    asked = RunRequest(runner="docker", gpus=2)
    assert asked.agent_limits(Limits(gpus=1)).gpus == 2
    assert asked.agent_limits(Limits(gpus=4)).gpus == 4
    assert RunRequest().agent_limits(Limits(gpus=1)).gpus == 1


async def test_a_machine_without_gpus_says_so_before_anything_is_spent() -> None:
    none = provider("local")
    await check_gpus(RunRequest(), none)
    with pytest.raises(InfrastructureError, match=r"--gpus 1: .* has no GPUs to give; run it where they are"):
        await check_gpus(msgspec.structs.replace(RunRequest(), runner="docker", gpus=1), none)


def test_a_request_for_gpus_is_stored_with_the_run() -> None:
    assert json.loads(msgspec.json.encode(RunRequest(runner="docker", gpus=1)))["gpus"] == 1
