"""A stage's policy behind an address, for commands that ask a server."""

from collections.abc import Iterator
from contextlib import contextmanager

from assay_shared.settings.environment import ServiceSettings, read_settings
from assay_trainer.evaluate.policy.services import own_services, start_engine
from assay_trainer.pipelines.stage_command import StagePlaces, served_model
from assay_trainer.pipelines.stage_folder import StageFolder
from assay_trainer.pipelines.stage_kinds import AnyStage, CommandStage


@contextmanager
def server_of(stage: AnyStage, own: StageFolder, places: StagePlaces) -> Iterator[str]:
    """Yield the address of an engine that serves the stage's `serve`, and ends with the block.

    It is empty for a stage that serves nothing.

    Raises:
        AssayError: the engine does not start.
    """
    if not isinstance(stage, CommandStage) or stage.serve is None:
        yield ""
        return
    with own_services(own.path) as services:
        folder = served_model(stage.serve, places)
        settings, _ = start_engine(services, folder, read_settings(ServiceSettings))
        yield settings.inference_url
