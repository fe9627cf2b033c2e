"""The GPUs that containers on this machine can be given."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

_DRIVER: Final = Path("/proc/driver/nvidia/gpus")
_VENDOR: Final = "nvidia"


def count_host_gpus(driver: Path = _DRIVER) -> int:
    """How many GPUs the driver of this machine knows."""
    try:
        return sum(1 for _ in driver.iterdir())
    except OSError:
        return 0


def engine_gpus(info: Mapping[str, Any], *, host_gpus: int) -> int:
    """How many GPUs a Docker engine can give, from what it says about itself.

    It says whether it can, by a runtime or by devices that it has discovered (CDI), and not always how many there are;
    then the machine's driver is asked, and where the engine is on another machine, one is assumed.
    """
    devices = [str(one.get("ID", "")) for one in info.get("DiscoveredDevices") or []]
    discovered = {name for name in devices if _VENDOR in name and not name.endswith("=all")}
    if discovered:
        return len(discovered)
    return max(1, host_gpus) if _VENDOR in (info.get("Runtimes") or {}) else 0


def device_requests(gpus: int) -> list[dict[str, Any]]:
    """What an engine is asked for, as `docker run --gpus N` asks."""
    return [{"Driver": "", "Count": gpus, "Capabilities": [["gpu"]]}] if gpus else []
