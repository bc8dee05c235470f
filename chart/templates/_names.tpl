{{/* Names of all objects, in one place. Names are cut so that suffixes always fit 63 characters. */}}
{{- define "rh.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* Not the release's name: users find `svc/ray-history-server` whatever they call the release.
     A second release in one namespace sets fullnameOverride. */}}
{{- define "rh.fullname" -}}
{{- default (include "rh.name" .) .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "rh.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}

{{- define "rh.webhook.name" -}}{{ include "rh.fullname" . }}-webhook{{- end -}}
{{- define "rh.server.name" -}}{{ include "rh.fullname" . }}{{- end -}}

{{/* Objects of the whole cluster also carry the namespace: two releases may live in one cluster. */}}
{{- define "rh.clusterName" -}}
{{- printf "%s-%s" (include "rh.namespace" .) (include "rh.fullname" .) | trunc 56 | trimSuffix "-" -}}
{{- end -}}
{{- define "rh.webhook.clusterName" -}}{{ include "rh.clusterName" . }}-hook{{- end -}}
{{- define "rh.autoscaler.clusterRole" -}}{{ include "rh.clusterName" . }}-scale{{- end -}}

{{- define "rh.webhook.configuration" -}}
{{- printf "%s%s" .Values.injection.namePrefix (include "rh.webhook.clusterName" .) -}}
{{- end -}}

{{- define "rh.webhook.serviceAccount" -}}
{{- if .Values.webhook.serviceAccount.create -}}
{{- default (include "rh.webhook.name" .) .Values.webhook.serviceAccount.name -}}
{{- else -}}
{{- required "webhook.serviceAccount.name: needed when webhook.serviceAccount.create is false" .Values.webhook.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "rh.server.serviceAccount" -}}
{{- if .Values.server.serviceAccount.create -}}
{{- default (include "rh.server.name" .) .Values.server.serviceAccount.name -}}
{{- else -}}
{{- required "server.serviceAccount.name: needed when server.serviceAccount.create is false" .Values.server.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "rh.tls.secret" -}}
{{- if eq .Values.tls.mode "existingSecret" -}}
{{- required "tls.secretName: needed when tls.mode is existingSecret" .Values.tls.secretName -}}
{{- else -}}
{{- include "rh.webhook.name" . }}-tls
{{- end -}}
{{- end -}}
