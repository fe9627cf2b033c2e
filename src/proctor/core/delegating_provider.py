"""The base class of providers that change a part of what another one does."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from proctor.core.environment import Environment, EnvironmentProvider, EnvironmentSpec, OneShotCommand, OneShotResult
from proctor.core.trees import FileEntry


class DelegatingProvider(EnvironmentProvider):
    """Passes everything on to another provider. The base class of providers that change a part of what one does.

    Args:
        inner: the other provider.
    """

    def __init__(self, inner: EnvironmentProvider) -> None:
        self._inner = inner
        self.supports_run_once = inner.supports_run_once
        self.uses_images = inner.uses_images

    async def start(self, spec: EnvironmentSpec) -> Environment:
        """As the other one."""
        return await self._inner.start(spec)

    async def digest(self, spec: EnvironmentSpec) -> str:
        """As the other one."""
        return await self._inner.digest(spec)

    async def close(self) -> None:
        """As the other one."""
        await self._inner.close()

    async def run_once(
        self,
        spec: EnvironmentSpec,
        command: OneShotCommand,
        *,
        permit: AbstractAsyncContextManager[object] | None = None,
    ) -> OneShotResult:
        """As the other one."""
        return await self._inner.run_once(spec, command, permit=permit)

    async def pin_files(self, environment: Environment, files: Mapping[str, FileEntry]) -> bool:
        """As the other one."""
        return await self._inner.pin_files(environment, files)

    def prefetch(self, specs: Sequence[EnvironmentSpec]) -> None:
        """As the other one."""
        self._inner.prefetch(specs)

    def release(self, spec: EnvironmentSpec) -> None:
        """As the other one."""
        self._inner.release(spec)

    def required_images(self, spec: EnvironmentSpec) -> tuple[str, ...]:
        """As the other one."""
        return self._inner.required_images(spec)

    async def storage_folders(self) -> Sequence[Path]:
        """As the other one."""
        return await self._inner.storage_folders()

    async def is_available(self, spec: EnvironmentSpec) -> bool:
        """As the other one."""
        return await self._inner.is_available(spec)

    async def unavailable_reason(self, spec: EnvironmentSpec | None = None) -> str | None:
        """As the other one."""
        return await self._inner.unavailable_reason(spec)

    async def missing_support(self, spec: EnvironmentSpec) -> str | None:
        """As the other one."""
        return await self._inner.missing_support(spec)

    async def gpu_count(self) -> int:
        """As the other one."""
        return await self._inner.gpu_count()
