{{/* Name and labels of a run's Job or JobSet, with the queue of Kueue. Takes root and name. */}}
{{- define "assay.runMetadata" -}}
{{- include "assay.workloadMetadata" (dict "root" .root "component" "trainer" "part" .root.Values.trainer "whole" .name) }}
  {{- with .root.Values.trainer.queueName }}
  kueue.x-k8s.io/queue-name: {{ . | quote }}
  {{- end }}
{{- end -}}

{{/* Whether a Job starts no pods: with no replicas; or until its queue lets it start. Kueue changes
     the field itself, and an upgrade keeps what it finds. Takes root, apiVersion, kind and name. */}}
{{- define "assay.suspended" -}}
{{- $trainer := .root.Values.trainer -}}
{{- $found := lookup .apiVersion .kind .root.Release.Namespace .name | default dict -}}
{{- $queued := dig "spec" "suspend" true $found -}}
suspend: {{ or (eq (int $trainer.replicas) 0) (and (ne $trainer.queueName "") $queued) }}
{{- end -}}

{{/* What cannot be changed of a JobSet. Takes root and runName. */}}
{{- define "assay.jobSetSpec" -}}
{{- $part := .root.Values.trainer -}}
# One headless service for all pods: the first one is NAME-node-0-0.NAME, also before it is ready.
network:
  enableDNSHostnames: true
  subdomain: {{ .runName | quote }}
  publishNotReadyAddresses: true
failurePolicy:
  maxRestarts: {{ $part.run.retries }}
  # No new pod starts before every old one is gone: two trainers must never share a run.
  restartStrategy: BlockingRecreate
  rules:
    # A node that is drained is no fault of the run. Each other failure counts as a restart.
    - name: drained
      action: RestartJobSetAndIgnoreMaxRestarts
      onJobFailureReasons: [PodFailurePolicy]
replicatedJobs:
  - name: node
    replicas: 1
    template:
      spec:
        completionMode: Indexed
        completions: {{ $part.nodes }}
        parallelism: {{ $part.nodes }}
        # A node alone cannot rejoin: the first failure ends the Job, and all start again.
        backoffLimit: 0
        podReplacementPolicy: Failed
        podFailurePolicy:
          rules:
            - action: FailJob
              onPodConditions:
                - {type: DisruptionTarget, status: "True"}
        template:
          {{- include "assay.runPod" . | nindent 10 }}
{{- end -}}
