"""The policies that stages name, looked up before a stage runs."""

from pathlib import Path

from assay_shared.errors import AssayError, NotFound
from assay_trainer.evaluate.policy.places import hub_name
from assay_trainer.pipelines.placeholders import STAGE
from assay_trainer.pipelines.stage_command import StagePlaces
from assay_trainer.pipelines.stage_folder import StageFolder
from assay_trainer.pipelines.stage_kinds import AnyStage, CommandStage


def policy_of(stage: AnyStage) -> str | None:
    """Return the policy that a stage reads or serves, as its file names it; None without one."""
    given = getattr(stage, _key(stage), None)
    return given if isinstance(given, str) else None


def _key(stage: AnyStage) -> str:
    return "serve" if isinstance(stage, CommandStage) else "policy"


def check_policy(stage: AnyStage, own: StageFolder, places: StagePlaces) -> str:
    """Return a note about a policy that no folder here has; empty if there is one.

    Raises:
        NotFound: there is no such policy, as far as that is known without a download.
    """
    given, field = policy_of(stage), f"stages.{own.name}.{_key(stage)}"
    if given is None or given.startswith(STAGE):
        return ""
    if isinstance(stage, CommandStage):
        if not Path(places.file(given)).is_dir():
            raise NotFound(f"there is no folder {given}", field=field)
        return ""
    try:
        found = hub_name(places.file(given), nearby=places.files)
        if found is None:
            return ""
        check_offline(*found)
    except AssayError as error:
        raise NotFound(error.message, field=field, hint=error.hint) from None
    return f"{own.name}: {given} is not a folder here: it is taken as a hub's name"


def check_offline(name: str, revision: str | None) -> None:
    """Check that the cache has a hub's model, if no connection is to be made.

    Raises:
        AssayError: it does not.
    """
    from huggingface_hub import constants

    from assay_trainer.hub import resolve

    if not constants.HF_HUB_OFFLINE:
        return
    try:
        resolve("model", name, revision)
    except AssayError as error:
        raise NotFound(
            f"{name} is not a folder here, and offline mode asks no hub: {error.message}",
            hint="correct the path, or unset HF_HUB_OFFLINE",
        ) from None
