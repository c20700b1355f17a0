"""NVML calls with handled failures: an unsupported call answers None, and a lost card is detected."""

from __future__ import annotations

from typing import Any

from gpusquad.agent.inventory import SourceUnavailable

_NO_ANSWER_EXPECTED = frozenset(
    {"NVML_ERROR_NOT_SUPPORTED", "NVML_ERROR_NO_PERMISSION", "NVML_ERROR_NOT_FOUND", "NVML_ERROR_FUNCTION_NOT_FOUND",
     "NVML_ERROR_ARGUMENT_VERSION_MISMATCH", "NVML_ERROR_NO_DATA", "NVML_ERROR_DEPRECATED"}
)  # fmt: skip
"""Errors about the query, not about the card."""
_LOST = frozenset({"NVML_ERROR_GPU_IS_LOST", "NVML_ERROR_RESET_REQUIRED", "NVML_ERROR_GPU_NOT_FOUND"})


class NvmlLibrary:
    """The binding, and the meaning of its error numbers. Tests pass their own."""

    def __init__(self, binding: Any) -> None:
        self.binding = binding
        names = [name for name in dir(binding) if name.startswith("NVML_ERROR_")]
        self._names = {getattr(binding, name): name for name in names}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.binding, name)

    def open(self) -> None:
        """Load the driver's library. SourceUnavailable says why it does not work."""
        try:
            self.binding.nvmlInit()
        except self.binding.NVMLError as error:
            raise SourceUnavailable(f"NVML does not start: {error}") from error

    def shut(self) -> None:
        self.ask("nvmlShutdown")

    def ask(self, name: str, *arguments: Any) -> Any:
        """None: no answer, for whatever reason."""
        return NvmlCard(self).ask(name, *arguments)

    def error_name(self, error: BaseException | None) -> str:
        return self._names.get(getattr(error, "value", None), "")


class NvmlCard:
    """Calls about one card. Records whether one of them reported the card as lost."""

    def __init__(self, library: NvmlLibrary, handle: Any = None) -> None:
        self._library = library
        self._handle = handle
        self.lost: str | None = None
        self.failure: str | None = None
        """The last answer that a healthy card would not give."""

    def card(self, name: str, *arguments: Any) -> Any:
        """A call whose first argument is the card."""
        return self.ask(name, self._handle, *arguments)

    def ask(self, name: str, *arguments: Any) -> Any:
        if self.lost is not None:
            return None  # each further call to a lost card may take seconds
        call = getattr(self._library.binding, name, None)
        if call is None:
            return None  # an older binding
        try:
            return call(*arguments)
        except self._library.binding.NVMLError as error:
            self._note(error)
        except Exception as error:
            # The binding has failures of its own (missing symbols, undecodable text). Then one field is lost.
            self.failure = f"{name}: {error}"
        return None

    def _note(self, error: Exception) -> None:
        name = self._library.error_name(error)
        if name in _LOST:
            self.lost = str(error)
        elif name not in _NO_ANSWER_EXPECTED:
            self.failure = str(error)
