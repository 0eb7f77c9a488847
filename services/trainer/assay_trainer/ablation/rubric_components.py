"""The components of the rubrics that come with the reward service, by the rubric's name."""

#: A rubric that is not here is somebody's own: its components are known to its service alone.
RUBRIC_COMPONENTS: dict[str, frozenset[str]] = {
    "choice": frozenset({"choice"}),
    "code.adaptive": frozenset({"rltf_adaptive"}),
    "code.blend": frozenset({"pass_ratio", "accepted"}),
    "code.dense": frozenset({"pass_ratio"}),
    "code.repair": frozenset({"repair"}),
    "code.rltf": frozenset({"rltf_coarse"}),
    "code.sparse": frozenset({"accepted"}),
    "instructions": frozenset({"constraints"}),
    "json": frozenset({"json_schema"}),
    "math": frozenset({"math"}),
    "math.dapo": frozenset({"math", "overlong"}),
    "or_debug.faithful": frozenset({"or_faithful", "or_preservation", "or_diagnosis", "or_quick"}),
    "or_debug.seed": frozenset({"or_outcome", "or_iis_recall", "or_steps"}),
    "qa": frozenset({"judge"}),
    "qa.verified": frozenset({"qa"}),
    "workflow": frozenset({"workflow_correct", "workflow_thrift", "workflow_clean"}),
}
