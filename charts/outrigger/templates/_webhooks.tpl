{{/* The parts of the webhooks' entries.

The selectors say which pods are asked about, in the words of the decision table (docs/annotations.md). A label's value
is compared letter by letter here, while Outrigger takes any case; so what is not a plain "off" is asked about, and
Outrigger decides. A misspelt value is refused with a sentence, not passed over. */}}

{{/* The usual spellings of "off". */}}
{{- define "outrigger.off" -}}
[disabled, Disabled, DISABLED, "false", "False", "FALSE"]
{{- end }}

{{/* Conditions on the label outrigger.mesh/inject, each a list of expressions in YAML. */}}

{{- define "outrigger.says" -}}
- {key: outrigger.mesh/inject, operator: Exists}
- {key: outrigger.mesh/inject, operator: NotIn, values: {{ include "outrigger.off" . }}}
{{- end }}

{{- define "outrigger.saysNothing" -}}
- {key: outrigger.mesh/inject, operator: DoesNotExist}
{{- end }}

{{- define "outrigger.notOff" -}}
- {key: outrigger.mesh/inject, operator: NotIn, values: {{ include "outrigger.off" . }}}
{{- end }}

{{/* What nothing matches: an entry that is switched off. */}}
{{- define "outrigger.never" -}}
- {key: outrigger.mesh/inject, operator: Exists}
- {key: outrigger.mesh/inject, operator: DoesNotExist}
{{- end }}

{{/* The namespaces of Kubernetes, the release's own and those of the values, by a label that nobody can forge: a label
     alone must not put Outrigger into the way of what it needs itself. */}}
{{- define "outrigger.notSystem" -}}
- key: kubernetes.io/metadata.name
  operator: NotIn
  values:
    {{- range concat (list "kube-system" "kube-public" "kube-node-lease" .Release.Namespace) .Values.injection.excludedNamespaces | uniq }}
    - {{ . | quote }}
    {{- end }}
{{- end }}

{{/* A selector: a list of expressions, and what the user adds to them. */}}
{{- define "outrigger.selector" -}}
{{- with .added.matchLabels }}
matchLabels:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with concat .expressions (.added.matchExpressions | default list) }}
matchExpressions:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The namespaces of an entry: a condition by its name, and what holds for all entries. */}}
{{- define "outrigger.namespaceSelector" -}}
{{- $expressions := concat (include .condition .context | fromYamlArray) (include "outrigger.notSystem" .context | fromYamlArray) -}}
{{- include "outrigger.selector" (dict "expressions" $expressions "added" .context.Values.webhook.namespaceSelector) }}
{{- end }}

{{/* The objects of an entry: a condition by its name, or none. */}}
{{- define "outrigger.objectSelector" -}}
{{- $expressions := list -}}
{{- with .condition }}{{ $expressions = include . $ | fromYamlArray }}{{ end -}}
{{- include "outrigger.selector" (dict "expressions" $expressions "added" .context.Values.webhook.objectSelector) }}
{{- end }}

{{/* What entries have in common. caBundle is written by the running server, or by cert-manager; a chart that said it
     too would take it back at each upgrade. */}}
{{- define "outrigger.client" -}}
clientConfig:
  service:
    namespace: {{ .context.Release.Namespace | quote }}
    name: {{ include "outrigger.fullname" .context | quote }}
    port: 443
    path: {{ .path }}
  {{- if eq .context.Values.certificates.mode "secret" }}
  caBundle: {{ .context.Values.certificates.caBundle | b64enc }}
  {{- end }}
matchPolicy: Equivalent
sideEffects: None
admissionReviewVersions: [v1]
timeoutSeconds: {{ .context.Values.webhook.timeoutSeconds }}
{{- end }}

{{/* The annotations of both configurations. By the mode a server of another mode, which an upgrade has yet to replace,
     leaves caBundle alone, whatever it has the rights to. */}}
{{- define "outrigger.webhookAnnotations" -}}
{{- $annotations := deepCopy .Values.webhook.annotations -}}
{{- $annotations = set $annotations "outrigger.mesh/certificates" .Values.certificates.mode }}
{{- if eq .Values.certificates.mode "cert-manager" }}
{{- $annotations = set $annotations "cert-manager.io/inject-ca-from" (printf "%s/%s" .Release.Namespace (include "outrigger.fullname" .)) }}
{{- end }}
annotations:
  {{- toYaml $annotations | nindent 2 }}
{{- end }}
