"""The errors that sparcal raises on purpose; the text of each is one sentence for a person.

    SparcalError
    ├── ShapeError         a tensor has the wrong shape, or two grids do not match (also ValueError)
    │   └── NoImageError   an image was asked for by a number that none has        (also IndexError)
    ├── DataError          an image, folder or value from outside cannot be used   (also ValueError)
    │   ├── PlaceError     a path leads to something else than is needed there     (also ValueError)
    │   └── EncoderNameError  the words that name an encoder mean none             (also ValueError)
    ├── NotFittedError     something was used before `fit`                         (also RuntimeError)
    ├── ArtifactError      a saved file is damaged, of another version or kind     (also ValueError)
    │   └── NoStationError there is no station where one was looked for            (also ValueError)
    ├── WeightsError       pretrained weights cannot be had                        (also RuntimeError)
    ├── MissingExtraError  an optional dependency is not installed                 (also ImportError)
    ├── BusyError          another process is writing to the same place            (also RuntimeError)
    └── FullDiskError      there is no room left for what is being written         (also OSError)

They live apart from the types so that the command line and the exported-model runner need no torch.
"""

from __future__ import annotations

import errno


class SparcalError(Exception):
    """Every error that sparcal raises on purpose; its text is one sentence for a person.

    >>> from sparcal import SparcalError, Station
    >>> try:
    ...     Station.open("nowhere")
    ... except SparcalError as error:
    ...     print(error)
    There is no station at nowhere: check the path, or make one with sparcal fit NORMALS --station nowhere.
    """


class ShapeError(SparcalError, ValueError):
    """A tensor has the wrong shape, or two grids do not match."""


class NoImageError(ShapeError, IndexError):
    """An image was asked for by a number that none has, or by something that is no number."""


class DataError(SparcalError, ValueError):
    """Something that came from outside (an image, a folder, a value) cannot be used."""


class PlaceError(DataError):
    """What is at a path is of another kind than is needed there: the path is wrong, whatever the work may be."""


class EncoderNameError(DataError):
    """The words that name an encoder mean none: the call is wrong, whatever the work may be."""


class NotFittedError(SparcalError, RuntimeError):
    """Something was used before it was fitted."""


class ArtifactError(SparcalError, ValueError):
    """A saved file is damaged, of another version, or of another kind."""


class NoStationError(ArtifactError):
    """There is no station where one was looked for: the path is wrong, no file is damaged."""


class WeightsError(SparcalError, RuntimeError):
    """Pretrained weights cannot be had on this machine."""


class MissingExtraError(SparcalError, ImportError):
    """An optional dependency is not installed."""


class BusyError(SparcalError, RuntimeError):
    """Another process is writing to the same place."""


class FullDiskError(SparcalError, OSError):
    """There is no room left for what is being written."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.errno = errno.ENOSPC  # so that it is recognised as what the system would have said
