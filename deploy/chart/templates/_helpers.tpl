{{/* Names. */}}
{{- define "stream-masker.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 52 | trimSuffix "-" -}}
{{- end }}

{{- define "stream-masker.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains (include "stream-masker.name" .) .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "stream-masker.name" .) | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- define "stream-masker.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "stream-masker.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end }}

{{- define "stream-masker.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Labels. */}}
{{- define "stream-masker.selectorLabels" -}}
app.kubernetes.io/name: {{ include "stream-masker.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "stream-masker.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{ include "stream-masker.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* The configuration file. */}}
{{- define "stream-masker.configuration" -}}
{{- if kindIs "string" .Values.configuration -}}
{{ .Values.configuration }}
{{- else -}}
{{ toYaml .Values.configuration }}
{{- end -}}
{{- end }}

{{/* The configuration as JSON. */}}
{{- define "stream-masker.settings" -}}
{{- $settings := .Values.configuration -}}
{{- if kindIs "string" $settings -}}
{{- $settings = fromYaml $settings -}}
{{- with $settings.Error }}{{ fail (printf "configuration is not YAML: %s" .) }}{{ end -}}
{{- end -}}
{{- toJson $settings -}}
{{- end }}

{{/* Refuse values that contradict each other, which the schema cannot compare. */}}
{{- define "stream-masker.validate" -}}
{{- with .Values.autoscaling -}}
{{- if gt (int .minReplicas) (int .maxReplicas) }}{{ fail (printf "autoscaling.minReplicas is %v and must be at most maxReplicas, %v" .minReplicas .maxReplicas) }}{{ end -}}
{{- if and (eq .mode "cpu") (eq (int .minReplicas) 0) }}{{ fail "autoscaling.minReplicas must be at least 1 with mode cpu" }}{{ end -}}
{{- end -}}
{{- with .Values.ontologies -}}
{{- if gt (len (compact (list .existingClaim .image (len .urls | eq 0 | ternary "" "urls")))) 1 }}{{ fail "ontologies: use one of existingClaim, image and urls" }}{{ end -}}
{{- end -}}
{{- if .Values.strimzi.users }}
{{- if eq .Values.kafkaTopics.create "job" }}{{ fail "kafkaTopics.create: Strimzi creates users after the Job; use strimzi" }}{{ end -}}
{{- end -}}
{{- if and (or .Values.strimzi.users (eq .Values.kafkaTopics.create "strimzi")) (not .Values.strimzi.cluster) }}{{ fail "strimzi.cluster is required for topics and users of Strimzi" }}{{ end -}}
{{- end }}

{{/*
Secrets that a process mounts at /run/secrets/NAME/secret, as a YAML list. Takes (list context component). A calibrator
needs no masking secret if the internal topics have one of their own, and only a worker encrypts fields.
*/}}
{{- define "stream-masker.secrets" -}}
{{- with index . 0 }}
{{- $own := .Values.internalTopics.existingSecret }}
{{- if not (and $own (eq (index $ 1) "calibrator")) }}
- {name: stream-masker, secret: {{ .Values.secret.existingSecret }}, key: {{ .Values.secret.key }}}
{{- end }}
{{- if $own }}
- {name: internal-topics, secret: {{ $own }}, key: {{ .Values.internalTopics.key }}}
{{- end }}
{{- range $i, $previous := .Values.internalTopics.previousSecrets }}
- {name: previous-{{ $i }}, secret: {{ $previous.existingSecret }}, key: {{ default "secret" $previous.key }}}
{{- end }}
{{- if .Values.http.token.existingSecret }}
- {name: http-token, secret: {{ .Values.http.token.existingSecret }}, key: {{ .Values.http.token.key }}}
{{- end }}
{{- if .Values.schemaRegistry.existingSecret }}
- {name: registry, secret: {{ .Values.schemaRegistry.existingSecret }}, key: {{ .Values.schemaRegistry.key }}}
{{- end }}
{{- end }}
{{- end }}

{{/* Environment variables of a process. Takes (list context component). */}}
{{- define "stream-masker.env" -}}
{{- $previous := list }}
- {name: STREAM_MASKER_CONFIG, value: /etc/stream-masker/stream-masker.yaml}
{{- range include "stream-masker.secrets" . | fromYamlArray }}
{{- $file := printf "/run/secrets/%s/secret" .name }}
{{- if eq .name "stream-masker" }}
- {name: STREAM_MASKER__SECRET__FILE, value: {{ $file }}}
{{- else if eq .name "internal-topics" }}
- {name: STREAM_MASKER__INTERNAL_TOPICS__SECRET__FILE, value: {{ $file }}}
{{- else if eq .name "http-token" }}
- {name: STREAM_MASKER__HTTP__TOKEN__FILE, value: {{ $file }}}
{{- else if eq .name "registry" }}
- {name: STREAM_MASKER__FORMAT__REGISTRY__{{ upper (index $ 0).Values.schemaRegistry.login }}__FILE, value: {{ $file }}}
{{- else }}
{{- $previous = append $previous (dict "file" $file) }}
{{- end }}
{{- end }}
{{- with $previous }}
- {name: STREAM_MASKER__INTERNAL_TOPICS__PREVIOUS_SECRETS, value: {{ toJson . | quote }}}
{{- end }}
{{- with index . 0 }}
- {name: STREAM_MASKER__HTTP__HOST, value: "0.0.0.0"}
- {name: STREAM_MASKER__HTTP__PORT, value: "9464"}
{{- $names := .Values.http.names }}
{{- $page := and .Values.calibrator.service (eq (index $ 1) "calibrator") | ternary (printf "%s-calibrator" (include "stream-masker.fullname" .)) "" }}
{{- range $service := list $page (include "stream-masker.runbooks" .) | compact }}
{{- range list "" (printf ".%s" (index $ 0).Release.Namespace) (printf ".%s.svc" (index $ 0).Release.Namespace) }}
{{- $names = append $names (print $service .) }}
{{- end }}
{{- end }}
{{- if and $names (ne (index $ 1) "test") }}
- {name: STREAM_MASKER__HTTP__NAMES, value: {{ toJson $names | quote }}}
{{- end }}
{{- if .Values.http.tls.existingSecret }}
- {name: STREAM_MASKER__HTTP__TLS__CERTIFICATE, value: /run/secrets/http-tls/tls.crt}
- {name: STREAM_MASKER__HTTP__TLS__KEY, value: /run/secrets/http-tls/tls.key}
{{- end }}
{{- if and .Values.strimzi.users (eq .Values.strimzi.authentication "tls") }}
- {name: STREAM_MASKER__KAFKA__PROPERTIES__SSL_CERTIFICATE_LOCATION, value: /run/secrets/kafka-user/user.crt}
- {name: STREAM_MASKER__KAFKA__PROPERTIES__SSL_KEY_LOCATION, value: /run/secrets/kafka-user/user.key}
{{- else if .Values.strimzi.users }}
- {name: STREAM_MASKER__KAFKA__PROPERTIES__SASL_USERNAME, value: {{ include "stream-masker.kafkaUser" $ }}}
- name: STREAM_MASKER__KAFKA__PROPERTIES__SASL_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ include "stream-masker.kafkaUser" $ }}, key: password}}
{{- end }}
{{- $secret := .Values.kafka.existingSecret }}
{{- range .Values.kafka.properties }}
- name: STREAM_MASKER__KAFKA__PROPERTIES__{{ upper . }}
  valueFrom: {secretKeyRef: {name: {{ $secret }}, key: {{ . }}}}
{{- end }}
{{- end }}
{{- end }}

{{/* The KafkaUser of a process, and the Secret of its credentials. Takes (list context component). */}}
{{- define "stream-masker.kafkaUser" -}}
{{ include "stream-masker.fullname" (index . 0) }}-{{ eq (index . 1) "test" | ternary "administrator" (index . 1) }}
{{- end }}

{{- define "stream-masker.hasCertificate" -}}
{{- with .Values.strimzi }}{{ if and .users (eq .authentication "tls") }}true{{ end }}{{ end -}}
{{- end }}

{{/* Volumes of a process, and where they are mounted. Both take (list context component); volumes also a ConfigMap. */}}
{{- define "stream-masker.volumes" -}}
{{- range include "stream-masker.secrets" . | fromYamlArray }}
- name: secret-{{ .name }}
  secret: {secretName: {{ .secret }}, defaultMode: 0440, items: [{key: {{ .key }}, path: secret}]}
{{- end }}
{{- with index . 0 }}
- name: configuration
  configMap: {name: {{ gt (len $) 2 | ternary (last $) (include "stream-masker.fullname" .) }}}
- name: tmp
  emptyDir: {sizeLimit: 64Mi}
{{- with .Values.http.tls.existingSecret }}
- name: http-tls
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- with .Values.kafka.certificates }}
- name: certificates
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- with .Values.schemaRegistry.certificates }}
- name: registry-certificates
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- if include "stream-masker.hasCertificate" . }}
- name: kafka-user
  secret: {secretName: {{ include "stream-masker.kafkaUser" $ }}, defaultMode: 0440}
{{- end }}
{{- if .Values.ontologies.existingClaim }}
- name: ontologies
  persistentVolumeClaim: {claimName: {{ .Values.ontologies.existingClaim }}, readOnly: true}
{{- else if or .Values.ontologies.image .Values.ontologies.urls }}
- name: ontologies
  emptyDir: {}
{{- end }}
{{- with .Values.volumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end }}

{{- define "stream-masker.hasOntologies" -}}
{{- with .Values.ontologies }}{{ if or .existingClaim .image .urls }}true{{ end }}{{ end -}}
{{- end }}

{{- define "stream-masker.volumeMounts" -}}
{{- range include "stream-masker.secrets" . | fromYamlArray }}
- {name: secret-{{ .name }}, mountPath: /run/secrets/{{ .name }}, readOnly: true}
{{- end }}
{{- with index . 0 }}
- {name: configuration, mountPath: /etc/stream-masker/stream-masker.yaml, subPath: stream-masker.yaml, readOnly: true}
- {name: tmp, mountPath: /tmp}
{{- if .Values.http.tls.existingSecret }}
- {name: http-tls, mountPath: /run/secrets/http-tls, readOnly: true}
{{- end }}
{{- if .Values.kafka.certificates }}
- {name: certificates, mountPath: /etc/stream-masker/tls, readOnly: true}
{{- end }}
{{- if .Values.schemaRegistry.certificates }}
- {name: registry-certificates, mountPath: /etc/stream-masker/registry, readOnly: true}
{{- end }}
{{- if include "stream-masker.hasCertificate" . }}
- {name: kafka-user, mountPath: /run/secrets/kafka-user, readOnly: true}
{{- end }}
{{- if include "stream-masker.hasOntologies" . }}
- {name: ontologies, mountPath: /ontologies, readOnly: true}
{{- end }}
{{- with .Values.volumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end }}

{{/*
The specification of a Job that runs `stream-masker topics`. Takes (list context name arguments configMap account).
*/}}
{{- define "stream-masker.topicsJob" -}}
{{- $job := . -}}
{{- with index . 0 -}}
backoffLimit: {{ eq (index $job 1) "test" | ternary 0 3 }}
template:
  metadata:
    labels:
      {{- include "stream-masker.selectorLabels" . | nindent 6 }}
      app.kubernetes.io/component: {{ index $job 1 }}
  spec:
    restartPolicy: Never
    serviceAccountName: {{ index $job 4 }}
    automountServiceAccountToken: false
    enableServiceLinks: false
    securityContext: {{- toYaml .Values.podSecurityContext | nindent 6 }}
    {{- with .Values.image.pullSecrets }}
    imagePullSecrets: {{- range . }}{{ list (dict "name" .) | toYaml | nindent 6 }}{{ end }}
    {{- end }}
    {{- with .Values.worker.nodeSelector }}
    nodeSelector: {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- with .Values.worker.tolerations }}
    tolerations: {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- with include "stream-masker.initContainers" . }}
    initContainers: {{- . | nindent 6 }}
    {{- end }}
    containers:
      - name: {{ index $job 1 }}
        image: {{ include "stream-masker.image" . }}
        imagePullPolicy: {{ .Values.image.pullPolicy }}
        args: {{ index $job 2 }}
        env: {{- include "stream-masker.env" (list . "test") | nindent 10 }}
        resources: {limits: {memory: 384Mi}}
        securityContext: {{- toYaml .Values.securityContext | nindent 10 }}
        volumeMounts: {{- include "stream-masker.volumeMounts" (list . "test") | nindent 10 }}
    volumes: {{- include "stream-masker.volumes" (list . "test" (index $job 3)) | nindent 6 }}
{{- end }}
{{- end }}

{{/* The Service of the pages with runbooks, to which the alerts lead unless they are elsewhere. */}}
{{- define "stream-masker.runbooks" -}}
{{- if and .Values.monitoring.prometheusRule (not .Values.monitoring.runbooks) }}{{ include "stream-masker.fullname" . }}-runbooks{{ end -}}
{{- end }}

{{/* Peers of the NetworkPolicy: the calibrators, of which one that stands by fetches the page of the active one. */}}
{{- define "stream-masker.calibrators" -}}
{{- if .Values.calibrator.service -}}
- podSelector:
    matchLabels:
      {{- include "stream-masker.selectorLabels" . | nindent 6 }}
      app.kubernetes.io/component: calibrator
{{- end -}}
{{- end }}

{{/* The ports of the schema registry as JSON, for the NetworkPolicy: those of the URLs if records have its format. */}}
{{- define "stream-masker.registryPorts" -}}
{{- $ports := list -}}
{{- $format := (include "stream-masker.settings" . | fromJson).format | default dict -}}
{{- if eq ($format.value | default "json") "confluent" -}}
{{- range dig "registry" "url" "http://localhost:8081" $format | splitList "," | compact -}}
{{- $url := urlParse . -}}
{{- $default := eq $url.scheme "https" | ternary "443" "80" -}}
{{- $ports = append $ports (regexFind "[0-9]+$" (regexFind ":[0-9]+$" $url.host) | default $default | int) -}}
{{- end -}}
{{- end -}}
{{- $ports | uniq | toJson -}}
{{- end }}

{{/* Containers that fetch ontologies before a process starts. */}}
{{- define "stream-masker.initContainers" -}}
{{- if .Values.ontologies.image }}
- name: ontologies
  image: {{ .Values.ontologies.image }}
  command: [cp, -R, /ontologies/., /target/]
  securityContext: {{- toYaml .Values.securityContext | nindent 4 }}
  resources: {limits: {memory: 64Mi}}
  volumeMounts: [{name: ontologies, mountPath: /target}]
{{- else if .Values.ontologies.urls }}
- name: ontologies
  image: {{ include "stream-masker.image" . }}
  command: [python, -c, {{ .Files.Get "files/download.py" | toJson }}]
  args: [{{ range $i, $file := .Values.ontologies.urls }}{{ if $i }}, {{ end }}{{ list $file.url $file.sha256 $file.name | join " " | quote }}{{ end }}]
  securityContext: {{- toYaml .Values.securityContext | nindent 4 }}
  resources: {limits: {memory: 128Mi}}
  volumeMounts: [{name: ontologies, mountPath: /target}]
{{- end }}
{{- end }}

{{/* The topics by role, as JSON: input has a list, other roles have templates. Takes the context. */}}
{{- define "stream-masker.roles" -}}
{{- $defaults := dict "input" "discharges" "output" "{topic}.masked" "rejected" "{topic}.rejected" "calibration" "stream-masker.calibration" "statistics" "stream-masker.statistics" "drift" "stream-masker.drift" -}}
{{- $roles := merge dict ((include "stream-masker.settings" . | fromJson).topics | default dict) $defaults -}}
{{- if kindIs "string" $roles.input }}{{ $_ := set $roles "input" (list $roles.input) }}{{ end -}}
{{- $roles | toJson -}}
{{- end }}

{{/* The names of the topics of a role, one for each input topic, none if it has no topic, as JSON. Takes (list context role). */}}
{{- define "stream-masker.topics" -}}
{{- $roles := include "stream-masker.roles" (index . 0) | fromJson -}}
{{- $template := eq (index . 1) "input" | ternary "{topic}" (get $roles (index . 1)) -}}
{{- $names := list -}}
{{- if $template }}{{- range $roles.input }}{{ $names = append $names (replace "{topic}" . $template) }}{{ end }}{{ end -}}
{{- $names | uniq | toJson -}}
{{- end }}

{{/* A duration in milliseconds: a number of seconds, or a text with a unit. */}}
{{- define "stream-masker.milliseconds" -}}
{{- $unit := regexFind "(ms|s|m|h|d)$" (toString .) -}}
{{- $scale := get (dict "" 1000 "ms" 1 "s" 1000 "m" 60000 "h" 3600000 "d" 86400000) $unit -}}
{{- round (mulf (trimSuffix $unit (toString .) | float64) $scale) 0 | int64 -}}
{{- end }}

{{/* The input topic, empty if there are several. Takes the context. */}}
{{- define "stream-masker.inputTopic" -}}
{{- $input := (include "stream-masker.roles" . | fromJson).input -}}
{{- if and (eq (len $input) 1) (not (hasPrefix "^" (first $input))) }}{{ first $input }}{{ end -}}
{{- end }}

{{/* The consumer group of the workers, for a scaler that reads the lag. Takes the context. */}}
{{- define "stream-masker.consumerGroup" -}}
{{- $settings := include "stream-masker.settings" . | fromJson -}}
{{- $group := printf "%s.workers" (include "stream-masker.roles" . | fromJson).calibration -}}
{{- with include "stream-masker.inputTopic" . }}{{ $group = printf "stream-masker.%s" . }}{{ end -}}
{{- dig "kafka" "properties" "group.id" $group $settings -}}
{{- end }}
