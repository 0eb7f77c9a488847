"""The trainer service as `assay trainer serve` starts it."""

from fastapi import FastAPI

from assay_trainer.pipelines.reporting.browsing import PipelineFolders
from assay_trainer.service.app import create_app
from assay_trainer.settings import TrainerSettings


def create_served_app(settings: TrainerSettings) -> FastAPI:
    """Return the service with the pages of the pipelines next to its runs."""
    return create_app(settings, PipelineFolders(settings.runs))
