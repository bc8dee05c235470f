{{/* The webhook's settings file, from the values. */}}
{{- define "rh.webhook.config" -}}
listen:
  address: "0.0.0.0"
  port: {{ .Values.webhook.port }}
  healthPort: {{ .Values.webhook.healthPort }}
  threads: {{ .Values.webhook.threads }}
tls:
  certFile: /tls/tls.crt
  keyFile: /tls/tls.key
scope:
  label: {{ .Values.injection.label }}
  excludedNamespaces:
    {{- append .Values.injection.excludedNamespaces (include "rh.namespace" .) | uniq | toYaml | nindent 4 }}
  onError: {{ ternary "refuse" "admit" (eq .Values.injection.failurePolicy "Fail") }}
collector:
  image: {{ include "rh.image" (dict "root" . "image" .Values.images.collector) | quote }}
  imagePullPolicy: {{ .Values.images.collector.pullPolicy }}
{{ toYaml (omit .Values.collector "serviceAccount" "env") | indent 2 }}
  env:
    {{- include "rh.storage.env" . | nindent 4 }}
    {{- with .Values.collector.env }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  volumes:
    {{- include "rh.storage.volumes" . | nindent 4 }}
  volumeMounts:
    {{- include "rh.storage.mounts" . | nindent 4 }}
serviceAccount:
  {{- $annotations := .Values.collector.serviceAccount.annotations }}
  {{- with .Values.identity.cloudRoleName }}
  {{- $annotations = merge (dict "pod-identity.alibabacloud.com/role-name" .) $annotations }}
  {{- end }}
{{ toYaml (omit .Values.collector.serviceAccount "annotations" "guardPrefix") | indent 2 }}
  annotations: {{ toYaml $annotations | nindent 4 }}
  autoscalerClusterRole: {{ ternary (include "rh.autoscaler.clusterRole" .) "" (and .Values.rbac.create (eq .Values.collector.serviceAccount.mode "perCluster")) | quote }}
rrsa:
{{ toYaml .Values.identity.rrsa | indent 2 }}
kubernetes:
  reportEverySeconds: {{ .Values.webhook.reportEverySeconds }}
logLevel: {{ .Values.webhook.logLevel }}
{{- end -}}

{{/* The settings file of `certs`. */}}
{{- define "rh.certs.config" -}}
namespace: {{ include "rh.namespace" . }}
service: {{ include "rh.webhook.name" . }}
secret: {{ include "rh.tls.secret" . }}
lease: {{ include "rh.webhook.name" . }}-certs
configurations:
  - {{ include "rh.webhook.configuration" . }}
leafDays: {{ .Values.tls.leafDays }}
directory: /tls
address: "0.0.0.0"
healthPort: 9081
logLevel: {{ .Values.webhook.logLevel }}
{{- end -}}
