{{/* The templates with pods, and the part that each belongs to. */}}
{{- define "assay.podTemplates" -}}
inference/download-job.yaml: inference.modelDownload
inference/engine-deployment.yaml: inference
inference/router-deployment.yaml: inference.router
judge/deployment.yaml: judge
redis/statefulset.yaml: redis
reward/deployment.yaml: reward
sandbox/deployment.yaml: sandbox
sandbox/seccomp-daemonset.yaml: sandbox.seccompInstaller
tests/closed.yaml: tests
tests/ready.yaml: tests
tests/sandbox-closed.yaml: tests
tests/score.yaml: tests
trainer/job.yaml: trainer
trainer/jobset.yaml: trainer
trainer/statefulset.yaml: trainer
worker/deployment.yaml: worker
{{- end -}}

{{/* The value that a variable of the chart comes from. Variables that are not here have one value
     whatever the installation. */}}
{{- define "assay.variableValues" -}}
ASSAY_ALLOWED_HOSTS: auth.hosts
ASSAY_CLIENT_TOKENS: auth.clients
ASSAY_DATA: trainer.datasets
ASSAY_EXECUTOR_CONFIG: reward.executor.config
ASSAY_INFERENCE_ENGINE: inference.engine
ASSAY_INFERENCE_MODEL: inference.model.folder
ASSAY_INFERENCE_MODEL_NAME: inference.model.name
ASSAY_INFERENCE_REPLICAS: inference.replicas
ASSAY_INFERENCE_SGLANG_ARGUMENTS: inference.arguments
ASSAY_INFERENCE_START_TIMEOUT_S: inference.startupS
ASSAY_INFERENCE_TOKEN: auth.existingSecret
ASSAY_INFERENCE_UPLOAD_FOLDER: inference.uploadsGi
ASSAY_INFERENCE_UPLOAD_MAX_BYTES: inference.uploadsGi
ASSAY_INFERENCE_URL: "inference.enabled: false and inference.external"
ASSAY_INFERENCE_VLLM_ARGUMENTS: inference.arguments
ASSAY_JUDGE_CONFIG: judge.config
ASSAY_JUDGE_SHARED: judge.shared
ASSAY_JUDGE_TOKEN: auth.existingSecret
ASSAY_JUDGE_URL: "judge.enabled: false"
ASSAY_OTLP_ENDPOINT: monitoring.traces.endpoint
ASSAY_REDIS_CA_FILE: redis.external.caSecret
ASSAY_REDIS_PASSWORD: redis.existingSecret
ASSAY_REDIS_URL: redis.external
ASSAY_REDIS_USERNAME: redis.external.usernameKey
ASSAY_REWARD_RUBRICS: reward.rubrics
ASSAY_REWARD_TOKEN: auth.existingSecret
ASSAY_REWARD_URL: "reward.enabled: false"
ASSAY_SANDBOX_ISOLATION: sandbox.isolation and sandbox.level
ASSAY_SANDBOX_MINIMUM_ISOLATION: sandbox.isolation and sandbox.level
ASSAY_SANDBOX_SLOTS: sandbox.slots
ASSAY_SANDBOX_TOKEN: auth.existingSecret
ASSAY_SANDBOX_URL: "sandbox.enabled: false and sandbox.external"
ASSAY_SHUTDOWN_GRACE_S: graceS of the part
ASSAY_TRAINER_TOKEN: auth.existingSecret
ASSAY_WEIGHT_TRANSFER: trainer.weightTransfer
DEADLINE_S: inference.modelDownload.deadlineS
FOLDER: inference.modelDownload.folder
HF_HUB_OFFLINE: inference.modelDownload
HF_TOKEN: inference.modelDownload.tokenSecret
REPOSITORY: inference.modelDownload.repository
REVISION: inference.modelDownload.revision
RUN_FOLDER: trainer.run.name
{{- end -}}

{{/* Refuses what a pod has twice: Helm 4 does not apply such an object, and Helm 3 lets the last one
     count without a word. Takes root. */}}
{{- define "assay.refuseRepeats" -}}
{{- $root := . -}}
{{- range $file, $path := include "assay.podTemplates" . | fromYaml -}}
{{- with include (printf "%s/%s" $root.Template.BasePath $file) $root | fromYaml -}}
{{- $spec := .spec -}}
{{- if eq .kind "JobSet" -}}
{{- $spec = (index .spec.replicatedJobs 0).template.spec.template.spec -}}
{{- else if ne .kind "Pod" -}}
{{- $spec = .spec.template.spec -}}
{{- end -}}
{{- $part := $root.Values -}}
{{- range splitList "." $path }}{{ $part = index $part . }}{{ end -}}
{{- $constraints := list -}}
{{- range $spec.topologySpreadConstraints -}}
{{- $key := printf "%s, %s" .topologyKey .whenUnsatisfiable -}}
{{- if has $key $constraints -}}
{{- fail (printf "%s.topologySpreadConstraints has two for %s; keep one" $path $key) -}}
{{- end -}}
{{- $constraints = append $constraints $key -}}
{{- end -}}
{{- $claims := list -}}
{{- range .spec.volumeClaimTemplates }}{{ $claims = append $claims .metadata.name }}{{ end -}}
{{- $pod := dict "spec" $spec "path" $path "part" $part "claims" $claims "root" $root -}}
{{- include "assay.refuseRepeatedVariables" $pod -}}
{{- include "assay.refuseRepeatedVolumes" $pod -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Takes root, spec, of a pod, and path and part of its values. */}}
{{- define "assay.refuseRepeatedVariables" -}}
{{- $root := .root -}}
{{- include "assay.refuseTwoSources" . -}}
{{- $values := include "assay.variableValues" . | fromYaml -}}
{{- $own := dict "path" .path "part" .part -}}
{{- $download := dict "path" "inference.modelDownload" "part" $root.Values.inference.modelDownload -}}
{{- range concat (.spec.initContainers | default list) .spec.containers -}}
{{- $owner := ternary $download $own (eq .name "download") -}}
{{- $plain := keys ($owner.part.environment | default dict) -}}
{{- $seen := list -}}
{{- range .env -}}
{{- if has .name $seen -}}
{{- $key := ternary "environment" "secretEnvironment" (has .name $plain) -}}
{{- $instead := "remove it, since it is the same in every installation" -}}
{{- with index $values .name -}}
{{- $instead = printf "set %s instead" . -}}
{{- end -}}
{{- fail (printf "%s.%s: the chart sets %s itself; %s" $owner.path $key .name $instead) -}}
{{- end -}}
{{- $seen = append $seen .name -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Takes path and part. */}}
{{- define "assay.refuseTwoSources" -}}
{{- $path := .path -}}
{{- $plain := keys (.part.environment | default dict) -}}
{{- $secret := list -}}
{{- range .part.secretEnvironment -}}
{{- if has .name $plain -}}
{{- fail (printf "%s.environment and %s.secretEnvironment both set %s; keep one" $path $path .name) -}}
{{- else if has .name $secret -}}
{{- fail (printf "%s.secretEnvironment sets %s twice; keep one" $path .name) -}}
{{- end -}}
{{- $secret = append $secret .name -}}
{{- end -}}
{{- end -}}

{{/* Takes the same, and claims, the names of a StatefulSet's. */}}
{{- define "assay.refuseRepeatedVolumes" -}}
{{- $path := .path -}}
{{- $volumes := .claims -}}
{{- range .spec.volumes -}}
{{- if has .name $volumes -}}
{{- fail (printf "%s.extraVolumes: the pod has a volume %s already; choose another name" $path .name) -}}
{{- end -}}
{{- $volumes = append $volumes .name -}}
{{- end -}}
{{- range concat (.spec.initContainers | default list) .spec.containers -}}
{{- $seen := list -}}
{{- range .volumeMounts -}}
{{- if has (clean .mountPath) $seen -}}
{{- fail (printf "%s.extraVolumeMounts: %s is mounted already; choose another path" $path .mountPath) -}}
{{- else if not (has .name $volumes) -}}
{{- fail (printf "%s.extraVolumeMounts: the pod has no volume %s; add it to %s.extraVolumes" $path .name $path) -}}
{{- end -}}
{{- $seen = append $seen (clean .mountPath) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Refuses accounts that two parts make, and annotations of an account that the chart does not make.
     Takes root. */}}
{{- define "assay.refuseAccounts" -}}
{{- $made := dict -}}
{{- $root := . -}}
{{- $sharing := list "inference.router" "sandbox.seccompInstaller" -}}
{{- if eq (toString ($root.Values.inference.serviceAccount | default dict).create) "false" -}}
{{- $sharing = append $sharing "inference.modelDownload" -}}
{{- end -}}
{{- range $path := include "assay.podTemplates" . | fromYaml | values | uniq | sortAlpha -}}
{{- $part := $root.Values -}}
{{- range splitList "." $path }}{{ $part = index $part . }}{{ end -}}
{{- $account := $part.serviceAccount | default dict -}}
{{- $create := ternary (eq (toString $account.create) "true") (ne (toString $account.create) "false") (has $path $sharing) -}}
{{- if and $account.annotations (not $create) -}}
{{- fail (printf "%s.serviceAccount.annotations needs %s.serviceAccount.create: true; the chart makes no account there" $path $path) -}}
{{- end -}}
{{- if and $create $account.name -}}
{{- with index $made $account.name -}}
{{- fail (printf "%s.serviceAccount.name: %s makes an account %s too; set create: false in one of them" $path . $account.name) -}}
{{- end -}}
{{- $_ := set $made $account.name $path -}}
{{- end -}}
{{- end -}}
{{- end -}}
