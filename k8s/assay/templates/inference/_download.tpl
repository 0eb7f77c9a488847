{{/* The pod that fetches a model. Takes a context. */}}
{{- define "assay.downloadPod" -}}
metadata:
  labels:
    {{- include "assay.labels" . | nindent 4 }}
    assay/network: download
spec:
  {{- include "assay.pod" . | nindent 2 }}
  restartPolicy: OnFailure
  containers:
    - name: download
      image: {{ include "assay.image" . }}
      imagePullPolicy: {{ $.root.Values.image.pullPolicy }}
      command:
        - python
        - -c
        - |
          {{- $.root.Files.Get "files/download_model.py" | nindent 10 }}
      env:
        - {name: HOME, value: /tmp}
        - {name: REPOSITORY, value: {{ .part.modelDownload.repository | quote }}}
        - {name: REVISION, value: {{ .part.modelDownload.revision | quote }}}
        - {name: FOLDER, value: {{ printf "/var/lib/assay/models/%s" .part.modelDownload.folder | quote }}}
        {{- if .part.modelDownload.tokenSecret.name }}
        - name: HF_TOKEN
          valueFrom:
            secretKeyRef: {name: {{ .part.modelDownload.tokenSecret.name }}, key: {{ .part.modelDownload.tokenSecret.key }}}
        {{- end }}
      resources:
        requests: {cpu: "1", memory: 1Gi}
        limits: {memory: 4Gi}
      securityContext:
        {{- include "assay.containerSecurity" . | nindent 8 }}
      volumeMounts:
        - {name: models, mountPath: /var/lib/assay/models}
        - {name: tmp, mountPath: /tmp}
  volumes:
    - name: models
      persistentVolumeClaim:
        claimName: {{ include "assay.modelsClaim" .root }}
    - name: tmp
      emptyDir: {sizeLimit: 1Gi}
{{- end -}}
